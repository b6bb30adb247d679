// Tests of the real ampd-trainer with a fake agent, on images that are augmented differently in each epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;

class AugmentTest : public TrainerTest {
 protected:
  // An attempt with four epochs of ten steps on images.
  StartAttempt Images(const std::string& job, int crop_padding, bool flip) {
    StartAttempt start = Mlp("fp32", 40);
    start.mutable_key()->set_job_id(job);
    v1::JobSpec& spec = *start.mutable_spec();
    spec.mutable_model()->mutable_mlp()->set_in_features(36);
    spec.mutable_data()->mutable_train()->mutable_synthetic()->clear_shape();
    Synthesise(*spec.mutable_data()->mutable_train()->mutable_synthetic(), {1, 6, 6}, 80);
    spec.mutable_data()->clear_eval();
    spec.mutable_data()->mutable_augment()->set_crop_padding(crop_padding);
    spec.mutable_data()->mutable_augment()->set_flip(flip);
    spec.mutable_checkpoint()->set_keep(10);
    return start;
  }
};

TEST_F(AugmentTest, AJobThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  const StartAttempt start = Images("j-both", 1, true);
  const auto whole = RunToOutcome(start);
  ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
  ASSERT_EQ(whole->checkpoints[2].step(), 21);
  const auto resumed = RunToOutcome(Resumed(start, whole->checkpoints[2]));
  ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
  EXPECT_EQ(resumed->steps.size(), 19u);
  for (const auto& [step, numbers] : resumed->steps) {
    EXPECT_EQ(numbers, whole->steps[step]) << "step " << step;
  }
  EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
}

TEST_F(AugmentTest, EachKindOfChange_ChangesWhatIsTrained) {
  const std::string plain = Run(Images("j-plain", 0, false)).final_metrics().state_hash();
  const std::string cropped = Run(Images("j-crop", 1, false)).final_metrics().state_hash();
  const std::string mirrored = Run(Images("j-flip", 0, true)).final_metrics().state_hash();
  EXPECT_FALSE(plain.empty());
  EXPECT_NE(plain, cropped);
  EXPECT_NE(plain, mirrored);
  EXPECT_NE(cropped, mirrored);
}

TEST_F(AugmentTest, SamplesWithoutHeightAndWidth_AreASpecError) {
  StartAttempt start = Mlp("fp32", 5);
  start.mutable_spec()->mutable_data()->mutable_augment()->set_flip(true);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("a sample of data.train is a list of numbers without height and width"));
}

}  // namespace
}  // namespace ampd::train
