#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::Gt;
using ::testing::IsSupersetOf;
using ::testing::Lt;
using ::testing::SizeIs;

class BestCheckpointTest : public TrainerTest {
 protected:
  // An attempt whose learning rate is so high that the evaluation loss goes up and down, so that only some evaluations
  // are the best so far.
  StartAttempt Restless(int64_t checkpoint_every_steps) {
    StartAttempt start = Mlp("fp32", 30);
    start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(0.3);
    start.mutable_spec()->mutable_eval()->set_every_steps(1);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(checkpoint_every_steps);
    start.mutable_spec()->mutable_checkpoint()->set_keep_best(true);
    return start;
  }

  static std::vector<int64_t> StepsOf(const std::vector<v1::Checkpoint>& checkpoints) {
    std::vector<int64_t> steps;
    for (const v1::Checkpoint& checkpoint : checkpoints) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }

  // Returns the steps of those evaluations whose loss was the lowest so far.
  static std::vector<int64_t> BestSteps(const FakeAgent& agent) {
    std::vector<int64_t> steps;
    double best = std::numeric_limits<double>::infinity();
    for (const v1::EvalPoint& eval : agent.evals) {
      if (eval.loss() < best) {
        best = eval.loss();
        steps.push_back(eval.step());
      }
    }
    return steps;
  }
};

TEST_F(BestCheckpointTest, EveryEvaluationWithTheLeastLossSoFar_IsFollowedByACheckpoint) {
  const auto agent = RunToOutcome(Restless(0));
  ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  std::vector<int64_t> expected = BestSteps(*agent);
  EXPECT_THAT(expected, SizeIs(Gt(2u)));
  EXPECT_THAT(expected, SizeIs(Lt(29u))) << "every evaluation was an improvement";
  if (expected.back() != 30) {
    expected.push_back(30);  // The last checkpoint is always saved.
  }
  EXPECT_EQ(StepsOf(agent->checkpoints), expected);
  const v1::Checkpoint last = agent->checkpoints.back();
  agent->checkpoints.pop_back();
  for (const v1::Checkpoint& checkpoint : agent->checkpoints) {
    EXPECT_EQ(checkpoint.eval_loss(), agent->evals[checkpoint.step() - 1].loss()) << checkpoint.step();
  }
  EXPECT_FALSE(last.has_eval_loss()) << "it is saved before the last evaluation";
  EXPECT_EQ(agent->outcome->final_metrics().eval_loss(), agent->evals[29].loss());
}

TEST_F(BestCheckpointTest, WithoutTheField_EvaluationsMakeNone) {
  StartAttempt start = Restless(15);
  start.mutable_spec()->mutable_checkpoint()->set_keep_best(false);
  EXPECT_EQ(StepsOf(RunToOutcome(start)->checkpoints), (std::vector<int64_t>{15, 30}));
}

TEST_F(BestCheckpointTest, ARunResumedAnywhere_KnowsTheBestOfBefore) {
  const auto whole = RunToOutcome(Restless(7));
  for (const int64_t step : {7, 14, 21}) {
    const auto from = std::find_if(whole->checkpoints.begin(), whole->checkpoints.end(),
                                   [step](const v1::Checkpoint& checkpoint) { return checkpoint.step() == step; });
    ASSERT_NE(from, whole->checkpoints.end());
    StartAttempt start = Restless(7);
    start.mutable_key()->set_attempt(static_cast<int>(step));
    *start.mutable_start_from() = *from;
    const auto resumed = RunToOutcome(start);
    EXPECT_EQ(StepsOf(resumed->checkpoints), StepsOf({from + 1, whole->checkpoints.end()})) << "from step " << step;
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
  }
}

TEST_F(BestCheckpointTest, AnotherJobsBest_IsNotKnownToAClone) {
  const auto first = RunToOutcome(Restless(0));
  StartAttempt start = Restless(0);
  start.mutable_key()->set_job_id("j-clone");
  start.mutable_spec()->mutable_train()->set_steps(32);
  *start.mutable_start_from() = first->checkpoints.back();
  const auto clone = RunToOutcome(start);
  EXPECT_THAT(StepsOf(clone->checkpoints), IsSupersetOf({int64_t{31}})) << "its first evaluation is its best";
}

}  // namespace
}  // namespace ampd::train
