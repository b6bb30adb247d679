#include "precision/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/models.h"
#include "precision/pass.h"
#include "tests/golden_file.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

v1::Device Cpu(bool native_bf16) {
  v1::Device device;
  device.set_id("cpu");
  device.set_kind(v1::Device::CPU);
  device.add_instruction_sets("avx2");
  if (native_bf16) {
    device.add_instruction_sets("avx512_bf16");
  }
  return device;
}

v1::Device Gpu(int major, int minor) {
  v1::Device device;
  device.set_id("gpu0");
  device.set_kind(v1::Device::GPU);
  device.set_capability_major(major);
  device.set_capability_minor(minor);
  return device;
}

v1::PrecisionPolicy Preset(const std::string& name) {
  v1::PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

graph::Graph Lenet() { return graph::WithLossHead(models::BuildLenet({}).value()).value(); }

absl::StatusOr<ResolvedPolicy> Resolve(const v1::PrecisionPolicy& policy, const v1::Device& device = Cpu(true),
                                       OptimizerKind optimizer = OptimizerKind::kSgd) {
  return ResolvePolicy(policy, Lenet(), device, optimizer);
}

int CountCasts(const graph::Graph& graph) {
  int casts = 0;
  for (const graph::Node& node : graph.nodes()) {
    casts += node.op == "aten.to.dtype";
  }
  return casts;
}

TEST(ResolvePolicy, TablesOfTheLenetAreTheGoldenOnes) {
  for (const char* preset : {"fp32", "bf16", "fp16"}) {
    const auto policy = Resolve(Preset(preset));
    ASSERT_TRUE(policy.ok()) << policy.status();
    ExpectGolden(std::string("tests/precision/golden/lenet-") + preset + ".txt", ToText(*policy));
  }
}

TEST(ResolvePolicy, Fp16ScalesDynamicallyAndTheOthersDoNot) {
  EXPECT_EQ(Resolve(Preset("fp32"))->loss_scale.kind, LossScaleConfig::Kind::kOff);
  EXPECT_EQ(Resolve(Preset("bf16"))->loss_scale.kind, LossScaleConfig::Kind::kOff);
  const LossScaleConfig scale = Resolve(Preset("fp16"))->loss_scale;
  EXPECT_EQ(scale.kind, LossScaleConfig::Kind::kDynamic);
  EXPECT_EQ(scale.initial, 65536);
  EXPECT_EQ(scale.growth_factor, 2);
  EXPECT_EQ(scale.backoff_factor, 0.5);
  EXPECT_EQ(scale.growth_interval, 2000);
}

TEST(ResolvePolicy, LowPrecisionWithoutAMasterIsRefusedNamingTheField) {
  for (const char* preset : {"fp16", "bf16"}) {
    v1::PrecisionPolicy policy = Preset(preset);
    policy.set_master(v1::PrecisionPolicy::none);
    const auto status = Resolve(policy, Cpu(true), OptimizerKind::kAdam).status();
    EXPECT_THAT(ViolationsOf(status), ElementsAre(Field(&FieldViolation::field, "precision.master"))) << preset;
  }
}

TEST(ResolvePolicy, KnownButUnsupportedIsUnimplementedNamingTheField) {
  for (const char* preset : {"fp8", "auto", "apex-o2"}) {
    const auto status = Resolve(Preset(preset)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << preset;
    EXPECT_THAT(std::string(status.message()), HasSubstr("precision.preset"));
  }
  v1::PrecisionPolicy cast = Preset("bf16");
  cast.set_cast_mode(v1::PrecisionPolicy::CAST);
  EXPECT_THAT(std::string(Resolve(cast).status().message()), HasSubstr("precision.cast_mode"));
}

TEST(ResolvePolicy, PreferTakesTheFirstThatTheDeviceSupports) {
  v1::PrecisionPolicy policy;
  policy.add_prefer("bf16");
  policy.add_prefer("fp16");
  EXPECT_EQ(Resolve(policy, Gpu(8, 0))->preset, "bf16");
  EXPECT_EQ(Resolve(policy, Gpu(7, 5))->preset, "fp16");
  EXPECT_EQ(ReasonOf(Resolve(policy, Gpu(6, 1)).status()), "CAPABILITY_TOO_LOW");
}

TEST(ResolvePolicy, AModuleRuleKeepsItsModuleInFp32) {
  v1::PrecisionPolicy policy = Preset("bf16");
  auto* rule = policy.add_module_rules();
  rule->set_match("classifier.2");
  rule->set_compute(v1::PrecisionPolicy::fp32);
  const auto resolved = Resolve(policy);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  for (const ParameterRow& row : resolved->parameters) {
    const bool head = row.name.starts_with("classifier.2.");
    EXPECT_EQ(row.dtype, head ? Dtype::kFloat32 : Dtype::kBFloat16) << row.name;
    EXPECT_EQ(row.master, !head) << row.name;
  }
}

TEST(ValidatePolicy, NamesEveryViolation) {
  v1::PrecisionPolicy policy = Preset("bf61");
  policy.set_compute(v1::PrecisionPolicy::none);
  auto* dynamic = policy.mutable_loss_scale()->mutable_dynamic();
  dynamic->set_initial(-1);
  dynamic->set_growth_factor(1);
  dynamic->set_backoff_factor(1);
  dynamic->set_growth_interval(0);
  dynamic->set_hysteresis(0);
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ValidatePolicy(policy)) {
    fields.push_back(violation.field);
  }
  const std::string path = "precision.loss_scale.dynamic.";
  EXPECT_THAT(fields,
              UnorderedElementsAre("precision.preset", "precision.compute", path + "initial", path + "growth_factor",
                                   path + "backoff_factor", path + "growth_interval", path + "hysteresis"));
}

TEST(ValidatePolicy, DefaultsAndPresetsAreValid) {
  EXPECT_THAT(ValidatePolicy({}), IsEmpty());
  for (const std::string& name : Presets()) {
    EXPECT_THAT(ValidatePolicy(Preset(name)), IsEmpty()) << name;
  }
}

TEST(ResolvePolicy, WarnsOfWhatIsLikelyNotMeant) {
  v1::PrecisionPolicy policy = Preset("fp16");
  policy.mutable_loss_scale()->mutable_off();
  for (const char* match : {"no_such_module*", "*"}) {
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match(match);
    rule.set_compute(v1::PrecisionPolicy::fp32);
  }
  v1::OpRule& rule = *policy.add_op_rules();
  rule.set_match("aten.nothing");
  rule.set_policy(v1::OpRule::fp32);
  EXPECT_THAT(Resolve(policy)->warnings,
              ElementsAre(HasSubstr("loss_scale is off"), HasSubstr("no_such_module*"), HasSubstr("aten.nothing")));
  EXPECT_THAT(Resolve(Preset("fp16"))->warnings, IsEmpty());
}

TEST(CheckCapability, NeedsWhatTheFormatNeeds) {
  EXPECT_TRUE(CheckCapability("bf16", Gpu(8, 0)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability("bf16", Gpu(7, 5))), "CAPABILITY_TOO_LOW");
  EXPECT_EQ(ReasonOf(CheckCapability("tf32", Gpu(7, 5))), "CAPABILITY_TOO_LOW");
  EXPECT_TRUE(CheckCapability("fp16", Gpu(7, 0)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability("fp16", Gpu(6, 1))), "CAPABILITY_TOO_LOW");
  EXPECT_TRUE(CheckCapability("fp16", Cpu(false)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability("tf32", Cpu(true))), "CAPABILITY_TOO_LOW");
  EXPECT_EQ(FindCapabilityGap("bf16", Gpu(7, 5))->needed, 80);
  EXPECT_EQ(FindCapabilityGap("bf16", Gpu(7, 5))->available, 75);
  EXPECT_FALSE(FindCapabilityGap("bf16", Cpu(false)).has_value());
}

TEST(IsEmulated, Bf16IsNativeOnlyWithItsInstructionsAndFp16NeverOnACpu) {
  EXPECT_FALSE(IsEmulated("bf16", Cpu(true)));
  EXPECT_TRUE(IsEmulated("bf16", Cpu(false)));
  EXPECT_TRUE(IsEmulated("fp16", Cpu(true)));
  EXPECT_FALSE(IsEmulated("fp16", Gpu(9, 0)));
  EXPECT_FALSE(IsEmulated("fp32", Cpu(false)));
}

TEST(ApplyPrecision, GraphsOfTheLenetAreTheGoldenOnes) {
  for (const char* preset : {"bf16", "fp16"}) {
    const auto graph = ApplyPrecision(Lenet(), *Resolve(Preset(preset)));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(graph->Check().ok()) << graph->Check();
    ExpectGolden(std::string("tests/precision/golden/lenet-graph-") + preset + ".txt", graph::ToText(*graph));
  }
}

TEST(ApplyPrecision, OnlyTheInputAndTheLogitsAreCast) {
  EXPECT_EQ(CountCasts(*ApplyPrecision(Lenet(), *Resolve(Preset("bf16")))), 2);
}

TEST(ApplyPrecision, Fp32LeavesTheGraphAsItIs) {
  EXPECT_EQ(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(Preset("fp32")))), graph::ToText(Lenet()));
}

TEST(ApplyPrecision, EmulatesFp16OnACpuOnly) {
  EXPECT_THAT(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(Preset("fp16")))), HasSubstr("ampd.conv2d_fp16"));
  EXPECT_THAT(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(Preset("fp16"), Gpu(9, 0)))), Not(HasSubstr("ampd.")));
}

TEST(ApplyPrecision, TheEvaluationProgramTakesTheSameTable) {
  const auto eval = graph::WithEvalHead(models::BuildLenet({}).value()).value();
  const auto graph = ApplyPrecision(eval, *Resolve(Preset("bf16")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->Check().ok()) << graph->Check();
  EXPECT_EQ(graph->type(*graph->FindOutput("loss_sum")).dtype, Dtype::kFloat32);
  EXPECT_EQ(graph->type(*graph->FindOutput("num_correct")).dtype, Dtype::kInt64);
}

}  // namespace
}  // namespace ampd::precision
