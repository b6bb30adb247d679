#include "worker/train/health/precision_raise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder/builder.h"
#include "graph/passes.h"

namespace ampd::train {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using ::testing::ElementsAre;
using v1::PrecisionPolicy;

graph::Graph Program() {
  GraphBuilder b("mlp");
  graph::ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 8}});
  x = b.Relu("relu", b.Linear("middle", x, 16));
  x = b.Linear("wide", x, 16);
  b.Output("logits", b.Linear("head", x, 4));
  return *graph::WithLossHead(*std::move(b).Build());
}

v1::Device Gpu(int capability_major) {
  v1::Device device;
  device.set_kind(v1::Device::GPU);
  device.set_capability_major(capability_major);
  return device;
}

precision::ResolvedPolicy Resolve(const PrecisionPolicy& policy, const v1::Device& device) {
  const auto resolved = precision::ResolvePolicy(policy, Program(), device, precision::OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.value_or(precision::ResolvedPolicy());
}

PrecisionPolicy Preset(const std::string& name) {
  PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

// Raises the precision of a run until no wider precision exists. Returns the texts of all raises in order, such as "in
// bf16" and "in fp32".
std::vector<std::string> Way(const PrecisionPolicy& policy, const v1::Device& device, const std::string& module) {
  std::vector<std::string> way;
  PrecisionRaise raise;
  for (;;) {
    const auto wider = Widen(raise, Resolve(Raised(policy, raise), device), module, device);
    if (!wider.has_value()) {
      return way;
    }
    raise = *wider;
    way.push_back(Describe(raise));
  }
}

TEST(PrecisionRaise, GoesFromFp16OverBf16ToFp32AndEnds) {
  EXPECT_THAT(Way(Preset("fp16"), Gpu(8), ""), ElementsAre("in bf16", "in fp32"));
  EXPECT_THAT(Way(Preset("bf16"), Gpu(8), ""), ElementsAre("in fp32"));
  EXPECT_THAT(Way(Preset("fp32"), Gpu(8), ""), ElementsAre());
}

TEST(PrecisionRaise, GoesFromFp8OverBf16ToFp32) {
  v1::Device gpu = Gpu(9);
  const auto with_recipe = [](PrecisionPolicy policy) {
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match("wide");
    rule.set_compute(PrecisionPolicy::fp8_e4m3);
    return policy;
  };
  EXPECT_THAT(Way(with_recipe(Preset("bf16")), gpu, "wide"),
              ElementsAre("with wide in bf16", "with wide in fp32", "in fp32 with wide in fp32"));
  EXPECT_THAT(Way(with_recipe(Preset("fp8")), gpu, ""), ElementsAre("in bf16", "in fp32"));
  EXPECT_THAT(Way(with_recipe(Preset("fp32")), gpu, "wide"), ElementsAre("in fp32"));
}

TEST(PrecisionRaise, LeavesOutBf16WhereTheDeviceHasNone) {
  EXPECT_THAT(Way(Preset("fp16"), Gpu(7), ""), ElementsAre("in fp32"));
}

TEST(PrecisionRaise, RaisesTheNamedModuleFirstAndAlone) {
  EXPECT_THAT(Way(Preset("fp16"), Gpu(8), "head"),
              ElementsAre("with head in fp32", "in bf16 with head in fp32", "in fp32 with head in fp32"));
  const precision::ResolvedPolicy resolved =
      Resolve(Raised(Preset("fp16"), {.preset = "", .fp32_modules = {"head"}}), Gpu(8));
  for (const precision::ParameterRow& row : resolved.parameters) {
    const bool is_head = row.name == "head.weight" || row.name == "head.bias";
    EXPECT_EQ(row.dtype, is_head ? Dtype::kFloat32 : Dtype::kFloat16) << row.name;
  }
}

TEST(PrecisionRaise, KeepsThePolicysOwnRulesBehindItsOwn) {
  PrecisionPolicy policy = Preset("fp16");
  policy.set_compute(PrecisionPolicy::fp16);
  policy.set_gradient(PrecisionPolicy::fp16);
  v1::ModuleRule& all = *policy.add_module_rules();
  all.set_match("*");
  all.set_compute(PrecisionPolicy::fp16);
  const PrecisionPolicy raised = Raised(policy, {.preset = "bf16", .fp32_modules = {"head"}});
  ASSERT_EQ(raised.module_rules_size(), 2);
  EXPECT_EQ(raised.module_rules(0).match(), "head");
  EXPECT_EQ(raised.module_rules(1).compute(), PrecisionPolicy::bf16) << "what the policy computes in";
  for (const precision::ParameterRow& row : Resolve(raised, Gpu(8)).parameters) {
    EXPECT_EQ(row.dtype, row.name.rfind("head", 0) == 0 ? Dtype::kFloat32 : Dtype::kBFloat16) << row.name;
  }
}

}  // namespace
}  // namespace ampd::train
