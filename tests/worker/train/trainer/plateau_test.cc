// Tests of the real ampd-trainer with a fake agent, with a learning rate that depends on the evaluations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using v1::Event;

class PlateauTest : public TrainerTest {
 protected:
  // An attempt with an evaluation at every second step. An evaluation is an improvement only if its loss is below a
  // tenth of the best loss.
  StartAttempt Demanding(int attempt) {
    StartAttempt start = Mlp("fp32", 30, attempt);
    start.mutable_spec()->mutable_eval()->set_every_steps(2);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
    v1::PlateauSchedule& plateau = *start.mutable_spec()->mutable_schedule()->mutable_plateau();
    plateau.set_factor(0.5);
    plateau.set_patience_evals(1);
    plateau.set_threshold(0.9);
    plateau.set_cooldown_evals(1);
    return start;
  }
};

TEST_F(PlateauTest, ALossThatStandsStill_LowersTheRateOfTheNextStepsAndIsAnEvent) {
  const auto agent = RunToOutcome(Demanding(1));
  ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  const std::vector<Event> falls = EventsOf(*agent, Event::LEARNING_RATE_FELL);
  ASSERT_THAT(falls, SizeIs(Gt(1u)));
  EXPECT_EQ(falls[0].step(), 6) << "the evaluations at 4 and 6 were no improvement";
  EXPECT_EQ(falls[1].step(), 12) << "the one at 8 does not count, those at 10 and 12 were none";
  EXPECT_EQ(falls[0].attributes().at("learning_rate"), "0.005");
  EXPECT_THAT(falls[0].message(),
              HasSubstr("the learning rate was lowered to 0.005, because for more than 1 evaluations"));
  for (const auto& [step, numbers] : agent->steps) {
    if (step <= 12) {
      EXPECT_DOUBLE_EQ(numbers.learning_rate, step <= 6 ? 0.01 : 0.005) << "step " << step;
    }
  }
  EXPECT_DOUBLE_EQ(agent->steps[13].learning_rate, 0.0025);
}

TEST_F(PlateauTest, ARunResumedAnywhere_EndsAsTheWholeOne) {
  const auto whole = RunToOutcome(Demanding(1));
  for (const size_t step : {3, 6, 7, 12}) {
    StartAttempt start = Demanding(static_cast<int>(step));
    *start.mutable_start_from() = whole->checkpoints[step - 1];
    const auto resumed = RunToOutcome(start);
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash())
        << "from step " << step;
    EXPECT_EQ(resumed->steps[static_cast<int64_t>(step) + 1], whole->steps[static_cast<int64_t>(step) + 1]);
  }
}

// A run's last checkpoint is saved before its last evaluation. A longer run that starts from this checkpoint must still
// take that evaluation into account.
TEST_F(PlateauTest, ALongerRunFromTheEndOfAShorterOne_EndsAsTheWholeOne) {
  StartAttempt longer = Demanding(1);
  longer.mutable_spec()->mutable_train()->set_steps(40);
  for (const int64_t steps : {28, 30}) {
    StartAttempt start = Demanding(2);
    start.mutable_key()->set_job_id("j-" + std::to_string(steps));
    start.mutable_spec()->mutable_train()->set_steps(steps);
    const auto shorter = RunToOutcome(start);
    ASSERT_EQ(shorter->outcome->kind(), Outcome::FINISHED) << shorter->outcome->ShortDebugString();
    ASSERT_EQ(shorter->checkpoints.back().step(), steps);
    start = longer;
    start.mutable_key()->set_attempt(static_cast<int>(steps));
    *start.mutable_start_from() = shorter->checkpoints.back();
    const auto resumed = RunToOutcome(start);
    start = longer;
    start.mutable_key()->set_attempt(static_cast<int>(100 + steps));
    const auto whole = RunToOutcome(start);
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
    ASSERT_EQ(resumed->evals[0].step(), steps);
    EXPECT_EQ(resumed->evals[0].loss(), whole->evals[static_cast<size_t>(steps) / 2 - 1].loss());
  }
}

}  // namespace
}  // namespace ampd::train
