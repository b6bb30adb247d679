#include "worker/train/plan/attempt_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/models.h"
#include "tests/graph/exported/exported_linear.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::train {
namespace {

internal::StartAttempt Start(const std::string& preset) {
  internal::StartAttempt start;
  v1::JobSpec& spec = *start.mutable_spec();
  spec.mutable_model()->mutable_mlp()->set_in_features(4);
  spec.mutable_model()->mutable_mlp()->set_num_classes(3);
  spec.mutable_precision()->set_preset(preset);
  start.set_precision(preset);
  start.mutable_device()->set_kind(v1::Device::CPU);
  return start;
}

TEST(ResolvePrecision, LossScaleRuleOfTheAssignment_ReplacesThatOfThePreset) {
  internal::StartAttempt start = Start("fp16");
  const auto model = models::BuildModel(start.spec());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto by_preset = ResolvePrecision(start, *model, {});
  ASSERT_TRUE(by_preset.ok()) << by_preset.status();
  EXPECT_EQ(by_preset->loss_scale.growth_interval, 2000);

  start.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(500);
  start.mutable_loss_scale()->mutable_dynamic()->set_hysteresis(4);
  const auto pinned = ResolvePrecision(start, *model, {});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->loss_scale.growth_interval, 500);
  EXPECT_EQ(pinned->loss_scale.hysteresis, 4);
  EXPECT_EQ(pinned->formats.compute, by_preset->formats.compute);

  const auto raised = ResolvePrecision(start, *model, {.preset = "bf16"});
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_EQ(raised->loss_scale.kind, precision::LossScaleConfig::Kind::kOff);
  const auto by_module = ResolvePrecision(start, *model, {.fp32_modules = {"head"}});
  ASSERT_TRUE(by_module.ok()) << by_module.status();
  EXPECT_EQ(by_module->loss_scale.growth_interval, 500);
}

TEST(ResolvePrecision, LossScaleRuleOutOfRange_IsASpecError) {
  internal::StartAttempt start = Start("fp16");
  start.mutable_loss_scale()->mutable_dynamic()->set_backoff_factor(2);
  EXPECT_EQ(ReasonOf(ResolvePrecision(start, *models::BuildModel(start.spec()), {}).status()), "SPEC_ERROR");
}

TEST(PlanAttempt, ABatchForWhichTheModelWasNotExported_IsASpecError) {
  graph::json model = graph::Linear();
  model["programs"]["train"]["range_constraints"] = {{"s77", {{"min_val", 2}, {"max_val", 8}}}};
  internal::StartAttempt start = Start("fp32");
  v1::JobSpec& spec = *start.mutable_spec();
  spec.mutable_model()->mutable_exported()->set_artifact(std::string(64, 'a'));
  start.set_artifact_folder(testing::TempDir());
  graph::WriteArchive(start.artifact_folder() + "/" + spec.model().exported().artifact(), model);
  v1::SyntheticSource& data = *spec.mutable_data()->mutable_train()->mutable_synthetic();
  data.add_shape(4);
  data.set_num_classes(3);
  data.set_num_samples(100);
  spec.mutable_data()->set_batch_size(64);
  spec.mutable_train()->set_steps(1);
  const absl::Status status = PlanAttempt(start).status();
  EXPECT_EQ(ReasonOf(status), "SPEC_ERROR");
  EXPECT_EQ(
      status.message(),
      "data.batch_size: a micro-batch has 64 samples: the model was exported for batches of at most 8 samples, and "
      "not for 64; change data.batch_size or train.gradient_accumulation, or export the model for such batches");
}

}  // namespace
}  // namespace ampd::train
