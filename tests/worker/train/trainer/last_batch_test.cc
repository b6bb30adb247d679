// Tests of the real ampd-trainer with a fake agent, on samples that do not fill the last batch of an epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;

class LastBatchTest : public TrainerTest {
 protected:
  StartAttempt Epochs(const std::string& job, int epochs, int64_t num_samples, int batch_size,
                      v1::DataSpec::LastBatch last_batch) {
    StartAttempt start = Mlp("fp32", 0);
    start.mutable_key()->set_job_id(job);
    v1::JobSpec& spec = *start.mutable_spec();
    spec.mutable_train()->set_epochs(epochs);
    spec.mutable_data()->mutable_train()->mutable_synthetic()->set_num_samples(num_samples);
    spec.mutable_data()->clear_eval();
    spec.mutable_data()->set_batch_size(batch_size);
    spec.mutable_data()->set_last_batch(last_batch);
    spec.mutable_checkpoint()->set_keep(10);
    return start;
  }
};

TEST_F(LastBatchTest, WhatIsLeftOfAnEpoch_IsAStepOnlyWhereItIsPadded) {
  const auto drop = RunToOutcome(Epochs("j-drop", 3, 40, 12, v1::DataSpec::DROP));
  EXPECT_EQ(drop->steps.size(), 9u);
  EXPECT_EQ(drop->state.total_steps(), 9);
  const auto pad = RunToOutcome(Epochs("j-pad", 3, 40, 12, v1::DataSpec::PAD));
  ASSERT_EQ(pad->outcome->kind(), Outcome::FINISHED) << pad->outcome->ShortDebugString();
  EXPECT_EQ(pad->steps.size(), 12u);
  EXPECT_EQ(pad->state.total_steps(), 12);
  for (int64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(pad->steps[step], drop->steps[step]) << "step " << step << ", before anything is padded";
  }
  EXPECT_NE(pad->steps[4], drop->steps[4]);
}

TEST_F(LastBatchTest, WhereBatchesFillTheEpoch_PaddingChangesNothing) {
  const auto drop = RunToOutcome(Epochs("j-drop", 2, 40, 8, v1::DataSpec::LAST_BATCH_UNSPECIFIED));
  const auto pad = RunToOutcome(Epochs("j-pad", 2, 40, 8, v1::DataSpec::PAD));
  ASSERT_EQ(drop->steps.size(), 10u);
  EXPECT_EQ(pad->steps, drop->steps);
}

// With 6 samples and a batch size of 12, a padded batch has every sample twice. Its mean loss must equal that of a
// batch that has every sample once.
TEST_F(LastBatchTest, FewerSamplesThanABatch_AreTrainedOnOverAndOver) {
  const auto drop = RunToOutcome(Epochs("j-drop", 4, 6, 12, v1::DataSpec::DROP));
  const auto pad = RunToOutcome(Epochs("j-pad", 4, 6, 12, v1::DataSpec::PAD));
  ASSERT_EQ(drop->steps.size(), 4u);
  ASSERT_EQ(pad->steps.size(), 4u);
  for (const auto& [step, numbers] : pad->steps) {
    EXPECT_NEAR(numbers.loss, drop->steps[step].loss, 1e-4 * std::abs(numbers.loss)) << "step " << step;
  }
  StartAttempt cut = Epochs("j-cut", 4, 6, 12, v1::DataSpec::DROP);
  cut.mutable_spec()->mutable_train()->set_gradient_accumulation(4);
  EXPECT_THAT(Run(cut).message(), HasSubstr("a batch of 6 samples can't be cut into 4 equal micro-batches"));
  cut.mutable_key()->set_job_id("j-padded");
  cut.mutable_spec()->mutable_data()->set_last_batch(v1::DataSpec::PAD);
  EXPECT_EQ(Run(cut).kind(), Outcome::FINISHED);
}

// An epoch has four steps. One attempt resumes before the padded batch of the second epoch, another one after the
// padded batch of the seventh epoch.
TEST_F(LastBatchTest, AJobThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  const StartAttempt start = Epochs("j-resumed", 8, 40, 12, v1::DataSpec::PAD);
  const auto whole = RunToOutcome(start);
  ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
  ASSERT_EQ(whole->steps.size(), 32u);
  int num_resumed = 0;
  for (const v1::Checkpoint& checkpoint : whole->checkpoints) {
    if (checkpoint.step() != 7 && checkpoint.step() != 28) {
      continue;
    }
    ++num_resumed;
    const auto resumed = RunToOutcome(Resumed(start, checkpoint));
    ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
    EXPECT_EQ(static_cast<int64_t>(resumed->steps.size()), 32 - checkpoint.step());
    for (const auto& [step, numbers] : resumed->steps) {
      EXPECT_EQ(numbers, whole->steps[step]) << "step " << step << " from " << checkpoint.step();
    }
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
  }
  EXPECT_EQ(num_resumed, 2);
}

TEST_F(LastBatchTest, AnEndThatIsNotKnown_IsASpecError) {
  const Outcome outcome = Run(Epochs("j-unknown", 1, 40, 12, static_cast<v1::DataSpec::LastBatch>(3)));
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("data.last_batch is 3, which this worker does not know"));
}

}  // namespace
}  // namespace ampd::train
