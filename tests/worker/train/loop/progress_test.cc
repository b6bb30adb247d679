#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "worker/train/loop/training_run.h"

namespace ampd::train {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

amp::PhaseResult Phase(const std::string& name, float loss, bool skipped) {
  amp::PhaseResult phase;
  phase.phase = name;
  phase.loss = loss;
  phase.skipped = skipped;
  return phase;
}

amp::StepResult Step(std::vector<amp::PhaseResult> phases) {
  amp::StepResult result;
  result.phases = std::move(phases);
  return result;
}

TEST(Progress, LossOfASkippedStep_CountsOnlyIfItIsFinite) {
  Progress progress;
  progress.RecordLosses(Step({Phase("", 3, false)}), /*has_trained=*/true);
  progress.RecordLosses(Step({Phase("", kNan, true)}), /*has_trained=*/true);
  EXPECT_EQ(progress.train_loss, 3);
  progress.RecordLosses(Step({Phase("", 2, true)}), /*has_trained=*/true);
  EXPECT_EQ(progress.train_loss, 2) << "its gradients alone were not finite";
  EXPECT_TRUE(progress.phase_losses.empty()) << "the step has one phase";
}

TEST(Progress, LossThatIsNotFinite_CountsIfTheStepTrainedOnItOrNoStepDid) {
  Progress progress;
  progress.RecordLosses(Step({Phase("", kNan, false)}), /*has_trained=*/true);
  EXPECT_TRUE(std::isnan(progress.train_loss));
  progress = Progress();
  progress.RecordLosses(Step({Phase("", kNan, true)}), /*has_trained=*/false);
  EXPECT_TRUE(std::isnan(progress.train_loss));
}

TEST(Progress, PhaseThatIsSkippedAlone_KeepsItsLossAlone) {
  Progress progress;
  progress.RecordLosses(Step({Phase("discriminator", 1, false), Phase("generator", 5, false)}), /*has_trained=*/true);
  progress.RecordLosses(Step({Phase("discriminator", 2, false), Phase("generator", kNan, true)}), /*has_trained=*/true);
  EXPECT_EQ(progress.train_loss, 2);
  EXPECT_EQ(progress.phase_losses.at("discriminator"), 2);
  EXPECT_EQ(progress.phase_losses.at("generator"), 5);
}

}  // namespace
}  // namespace ampd::train
