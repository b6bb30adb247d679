// Tests of the real ampd-trainer with a fake agent: jobs that stop early, because their evaluations no longer improve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using v1::Event;

constexpr int64_t kSteps = 60;
constexpr int64_t kEvery = 2;
constexpr int kPatience = 3;
constexpr double kMinDelta = 0.05;

class EarlyStoppingTest : public TrainerTest {
 protected:
  // An attempt that is evaluated at every second step and stops after three evaluations that did not lower the loss by
  // more than 0.05.
  StartAttempt Stopping(int attempt = 1, const std::string& precision = "fp32") {
    StartAttempt start = Mlp(precision, kSteps, attempt);
    start.mutable_spec()->mutable_eval()->set_every_steps(kEvery);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
    v1::EarlyStopping& stopping = *start.mutable_spec()->mutable_train()->mutable_early_stopping();
    stopping.set_patience(kPatience);
    stopping.set_min_delta(kMinDelta);
    return start;
  }

  // Returns the step at which a run with these evaluations has to stop, computed by a simple loop; 0 if the run does
  // not stop.
  static int64_t StopOf(const std::vector<v1::EvalPoint>& evals) {
    for (size_t i = kPatience; i < evals.size(); ++i) {
      double best = evals[0].loss();
      size_t best_at = 0;
      for (size_t j = 1; j <= i; ++j) {
        if (evals[j].loss() < best - kMinDelta) {
          best = evals[j].loss();
          best_at = j;
        }
      }
      if (i - best_at >= kPatience) {
        return evals[i].step();
      }
    }
    return 0;
  }

  static void ExpectSameEnd(const FakeAgent& actual, const FakeAgent& expected) {
    EXPECT_EQ(actual.outcome->kind(), Outcome::FINISHED) << actual.outcome->ShortDebugString();
    EXPECT_EQ(actual.outcome->last_step(), expected.outcome->last_step());
    EXPECT_EQ(actual.outcome->message(), expected.outcome->message());
    const v1::FinalMetrics& metrics = actual.outcome->final_metrics();
    EXPECT_EQ(metrics.state_hash(), expected.outcome->final_metrics().state_hash());
    EXPECT_EQ(metrics.eval_loss(), expected.outcome->final_metrics().eval_loss());
    EXPECT_EQ(metrics.train_loss(), expected.outcome->final_metrics().train_loss());
    EXPECT_THAT(EventsOf(actual, Event::STOPPED_EARLY), SizeIs(1));
  }
};

TEST_F(EarlyStoppingTest, ALossThatStandsStill_EndsTheAttemptAtThatEvaluation) {
  StartAttempt start = Stopping();
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(0);
  const auto agent = RunToOutcome(start);
  ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::SUCCEEDED_NORMALLY);
  const int64_t last = agent->outcome->last_step();
  EXPECT_LT(last, kSteps);
  EXPECT_EQ(last, agent->evals.back().step());
  EXPECT_EQ(last, StopOf(agent->evals));
  EXPECT_EQ(agent->steps.rbegin()->first, last) << "no step is trained beyond it";
  EXPECT_EQ(agent->state.total_steps(), kSteps);

  const std::vector<Event> stops = EventsOf(*agent, Event::STOPPED_EARLY);
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].step(), last);
  EXPECT_EQ(stops[0].attributes().at("metric"), "EVAL_LOSS");
  EXPECT_EQ(stops[0].attributes().at("patience"), "3");
  EXPECT_EQ(stops[0].attributes().at("best_step"), absl::StrCat(last - kPatience * kEvery));
  EXPECT_THAT(stops[0].message(), StartsWith(absl::StrCat("training stopped early at step ", last, " of 60: ")));
  EXPECT_EQ(agent->outcome->message(), stops[0].message());

  ASSERT_THAT(agent->checkpoints, SizeIs(1)) << "the last one";
  EXPECT_EQ(agent->checkpoints[0].step(), last);
  EXPECT_EQ(agent->checkpoints[0].eval_loss(), agent->evals.back().loss());
  EXPECT_EQ(agent->outcome->final_metrics().eval_loss(), agent->evals.back().loss());
  EXPECT_EQ(agent->outcome->final_metrics().state_hash(), agent->checkpoints[0].state_hash());
}

TEST_F(EarlyStoppingTest, TheStepsBeforeIt_AreThoseOfARunWithoutEarlyStopping) {
  const auto stopped = RunToOutcome(Stopping(1));
  StartAttempt start = Stopping(2);
  start.mutable_spec()->mutable_train()->clear_early_stopping();
  const auto whole = RunToOutcome(start);
  EXPECT_EQ(whole->outcome->last_step(), kSteps);
  EXPECT_EQ(StopOf(whole->evals), stopped->outcome->last_step());
  EXPECT_THAT(EventsOf(*whole, Event::STOPPED_EARLY), IsEmpty());
  EXPECT_THAT(whole->outcome->message(), IsEmpty());
  for (const auto& [step, numbers] : stopped->steps) {
    EXPECT_EQ(numbers, whole->steps[step]) << step;
  }
}

TEST_F(EarlyStoppingTest, WhileItImproves_AllStepsAreTrained) {
  StartAttempt start = Stopping();
  start.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(kSteps);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->last_step(), kSteps);
  EXPECT_THAT(EventsOf(*agent, Event::STOPPED_EARLY), IsEmpty());
  EXPECT_THAT(agent->outcome->message(), IsEmpty());
}

TEST_F(EarlyStoppingTest, ARunResumedAnywhere_StopsAtTheSameStepWithTheSameBits) {
  for (const std::string precision : {"fp32", "fp16"}) {
    StartAttempt start = Stopping(1, precision);
    start.mutable_key()->set_job_id("j-" + precision);
    start.mutable_spec()->mutable_train()->set_gradient_accumulation(2);
    const auto whole = RunToOutcome(start);
    const int64_t last = whole->outcome->last_step();
    ASSERT_LT(last, kSteps) << precision;
    for (const int64_t step : {int64_t{1}, last - 2 * kEvery, last - kEvery - 1, last - kEvery, last - 1, last}) {
      SCOPED_TRACE(absl::StrCat(precision, " from step ", step));
      start.mutable_key()->set_attempt(static_cast<int>(step + 1));
      const auto from = std::find_if(whole->checkpoints.begin(), whole->checkpoints.end(),
                                     [step](const v1::Checkpoint& checkpoint) { return checkpoint.step() == step; });
      ASSERT_NE(from, whole->checkpoints.end());
      *start.mutable_start_from() = *from;
      const auto resumed = RunToOutcome(start);
      ExpectSameEnd(*resumed, *whole);
      EXPECT_THAT(resumed->steps, SizeIs(last - step)) << "an attempt that begins at the end trains nothing";
    }
  }
}

TEST_F(EarlyStoppingTest, KilledInBetween_StopsAtTheSameStep) {
  StartAttempt start = Stopping(1);
  const auto whole = RunToOutcome(start);
  const int64_t counted = whole->outcome->last_step() - 2 * kEvery;  // One evaluation had no improvement by then.
  start.mutable_key()->set_job_id("j-killed");
  FakeAgent killed = Spawn();
  killed.Connect();
  killed.Start(start);
  killed.ReadUntil([&] { return !killed.checkpoints.empty() && killed.checkpoints.back().step() >= counted; });
  killed.Kill(SIGKILL);
  killed.WaitForExit();
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = killed.checkpoints.back();
  ExpectSameEnd(*RunToOutcome(start), *whole);
}

TEST_F(EarlyStoppingTest, WithKeepBest_TheBestCheckpointIsKnownAfterTheStopToo) {
  StartAttempt start = Stopping(1);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(0);
  start.mutable_spec()->mutable_checkpoint()->set_keep_best(true);
  const auto whole = RunToOutcome(start);
  EXPECT_EQ(whole->checkpoints.back().step(), whole->outcome->last_step());
  const auto best = std::min_element(whole->evals.begin(), whole->evals.end(),
                                     [](const auto& a, const auto& b) { return a.loss() < b.loss(); });
  EXPECT_EQ(std::count_if(whole->checkpoints.begin(), whole->checkpoints.end(),
                          [&](const v1::Checkpoint& checkpoint) { return checkpoint.step() == best->step(); }),
            1);
}

TEST_F(EarlyStoppingTest, AnAccuracyThatStandsStill_EndsTheAttempt) {
  StartAttempt start = Stopping();
  v1::EarlyStopping& stopping = *start.mutable_spec()->mutable_train()->mutable_early_stopping();
  stopping.set_metric(v1::EarlyStopping::EVAL_ACCURACY);
  stopping.set_min_delta(0);
  const auto agent = RunToOutcome(start);
  EXPECT_LT(agent->outcome->last_step(), kSteps);
  const std::vector<Event> stops = EventsOf(*agent, Event::STOPPED_EARLY);
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_THAT(stops[0].message(), HasSubstr("eval_accuracy has not risen above "));
  const size_t num = agent->evals.size();
  ASSERT_GT(num, kPatience);
  for (size_t i = num - kPatience; i < num; ++i) {
    EXPECT_LE(agent->evals[i].accuracy(), agent->evals[num - kPatience - 1].accuracy());
  }
}

// A job that starts from the checkpoint of a job that stopped early trains further if it has a larger patience or no
// early stopping.
TEST_F(EarlyStoppingTest, ACloneThatIsMorePatient_TrainsOn) {
  const auto stopped = RunToOutcome(Stopping(1));
  const int64_t last = stopped->outcome->last_step();
  StartAttempt start = Stopping(1);
  start.mutable_key()->set_job_id("j-clone");
  *start.mutable_start_from() = stopped->checkpoints.back();
  ASSERT_EQ(start.start_from().step(), last);
  start.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(kPatience + 2);
  const auto patient = RunToOutcome(start);
  EXPECT_GE(patient->outcome->last_step(), last + 2 * kEvery) << patient->outcome->ShortDebugString();
  start.mutable_key()->set_attempt(2);
  start.mutable_spec()->mutable_train()->clear_early_stopping();
  const auto whole = RunToOutcome(start);
  EXPECT_EQ(whole->outcome->last_step(), kSteps);
  EXPECT_THAT(whole->steps, SizeIs(kSteps - last));
}

// A new job that takes only the weights of a job that stopped early starts at step 0 and counts its own evaluations
// only.
TEST_F(EarlyStoppingTest, AJobThatBeginsWithItsWeights_CountsAnew) {
  const auto stopped = RunToOutcome(Stopping(1));
  StartAttempt start = Stopping(1);
  start.mutable_key()->set_job_id("j-weights");
  start.set_weights_only(true);
  start.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id("j-abc");
  *start.mutable_start_from() = stopped->checkpoints.back();
  const auto again = RunToOutcome(start);
  EXPECT_EQ(again->outcome->kind(), Outcome::FINISHED) << again->outcome->ShortDebugString();
  EXPECT_EQ(again->evals[0].step(), kEvery);
  EXPECT_GE(again->outcome->last_step(), (kPatience + 1) * kEvery);
}

// A run's last checkpoint is saved before its last evaluation. A longer run that starts from this checkpoint must still
// take that evaluation into account.
TEST_F(EarlyStoppingTest, ALongerRunFromTheEndOfAShorterOne_StopsWhereTheWholeOneStops) {
  const auto whole = RunToOutcome(Stopping(1));
  const int64_t last = whole->outcome->last_step();
  for (const int64_t steps : {last - kEvery, last}) {
    StartAttempt start = Stopping(1);
    start.mutable_key()->set_job_id(absl::StrCat("j-", steps));
    start.mutable_spec()->mutable_train()->set_steps(steps);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(0);
    const auto shorter = RunToOutcome(start);
    EXPECT_EQ(shorter->outcome->last_step(), steps);
    EXPECT_THAT(EventsOf(*shorter, Event::STOPPED_EARLY), IsEmpty()) << "it trained all of its steps";
    start.mutable_spec()->mutable_train()->set_steps(kSteps);
    start.mutable_key()->set_attempt(2);
    *start.mutable_start_from() = shorter->checkpoints.back();
    ExpectSameEnd(*RunToOutcome(start), *whole);
  }
}

TEST_F(EarlyStoppingTest, WithALearningRateOfAPlateau_BothCountTheSameEvaluations) {
  StartAttempt start = Stopping();
  v1::PlateauSchedule& plateau = *start.mutable_spec()->mutable_schedule()->mutable_plateau();
  plateau.set_patience_evals(0);
  plateau.set_threshold(0.5);
  const auto whole = RunToOutcome(start);
  EXPECT_LT(whole->outcome->last_step(), kSteps);
  EXPECT_EQ(whole->outcome->last_step(), StopOf(whole->evals));
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = whole->checkpoints[static_cast<size_t>(whole->outcome->last_step()) - 4];
  ExpectSameEnd(*RunToOutcome(start), *whole);
}

// The job ends after six evaluations without improvement. The first evaluation stays the best one, because an
// improvement must be larger than 1000. Step 6 diverges, and the run returns to step 4. Step 5 is then evaluated again.
// Only its second evaluation counts, so the six evaluations are those of steps 2 to 7.
TEST_F(EarlyStoppingTest, AfterARollBack_TheEvaluationsOfTheCheckpointCount) {
  StartAttempt start = Stopping(1, "fp16");
  UseIdx(start, 8 * 20, /*bright=*/8 * 5 + 3);  // The bright sample is in the sixth batch.
  v1::JobSpec& spec = *start.mutable_spec();
  *spec.mutable_data()->mutable_eval() = spec.data().train();
  spec.mutable_data()->mutable_eval()->mutable_idx()->set_limit(8 * 5);
  spec.mutable_eval()->set_every_steps(1);
  spec.mutable_precision()->mutable_loss_scale()->mutable_off();
  spec.mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
  spec.mutable_checkpoint()->set_every_steps(4);
  spec.set_on_divergence(v1::JobSpec::ROLL_BACK);
  spec.mutable_train()->mutable_early_stopping()->set_patience(6);
  spec.mutable_train()->mutable_early_stopping()->set_min_delta(1000);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  const std::vector<Event> back = EventsOf(*agent, Event::ROLLED_BACK);
  ASSERT_THAT(back, SizeIs(1));
  EXPECT_EQ(back[0].step(), 4);
  EXPECT_EQ(back[0].attributes().at("from_step"), "6");
  EXPECT_EQ(agent->outcome->last_step(), 7);
  EXPECT_THAT(EventsOf(*agent, Event::STOPPED_EARLY), SizeIs(1));
}

// The evaluation losses of these runs are never finite, because the inputs of data.eval are beyond fp16's range.
TEST_F(EarlyStoppingTest, IfNoEvaluationIsFinite_TheJobFailsUnlessItOnlyWarns) {
  StartAttempt start = Stopping(1, "fp16");
  start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic()->set_noise(1e7);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::FAIL);
  const auto failed = RunToOutcome(start);
  EXPECT_EQ(failed->outcome->kind(), Outcome::FAILED) << failed->outcome->ShortDebugString();
  EXPECT_THAT(failed->outcome->message(), HasSubstr("the evaluation loss of step 6 is not finite"));
  EXPECT_EQ(failed->outcome->last_step(), kPatience * kEvery);
  ASSERT_THAT(failed->checkpoints, testing::Not(IsEmpty()));
  EXPECT_EQ(failed->checkpoints.back().step(), kPatience * kEvery) << "what was trained is saved";
  start.mutable_spec()->set_on_divergence(v1::JobSpec::WARN);
  start.mutable_key()->set_job_id("j-warns");
  const auto warned = RunToOutcome(start);
  EXPECT_EQ(warned->outcome->kind(), Outcome::FINISHED) << warned->outcome->ShortDebugString();
  EXPECT_EQ(warned->outcome->last_step(), kPatience * kEvery);
  EXPECT_THAT(warned->outcome->message(), HasSubstr("eval_loss was not finite in any of 3 evaluations"));
}

TEST_F(EarlyStoppingTest, WithoutEvaluations_IsASpecError) {
  StartAttempt start = Stopping();
  start.mutable_spec()->mutable_eval()->clear_every_steps();
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("train.early_stopping needs data.eval, eval.every_steps"));
}

}  // namespace
}  // namespace ampd::train
