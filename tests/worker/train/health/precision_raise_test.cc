#include "worker/train/health/precision_raise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "precision/bans.h"

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
    const auto now = ResolveRaised(policy, raise, Program(), device, precision::OptimizerKind::kAdam);
    EXPECT_TRUE(now.ok()) << now.status();
    const auto wider = now.ok() ? Widen(raise, *now, module, device) : std::nullopt;
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

TEST(PrecisionRaise, OfAModuleRuleBelowFp32UnderAnFp32PolicyIsToFp32) {
  PrecisionPolicy policy = Preset("fp32");
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match("head");
  rule.set_compute(PrecisionPolicy::fp16);
  EXPECT_THAT(Way(policy, Gpu(8), ""), ElementsAre("in fp32"));
}

TEST(PrecisionRaise, ToFp32IncludesTheModulesThatWereRaisedToBf16) {
  PrecisionPolicy policy = Preset("bf16");
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match("wide");
  rule.set_compute(PrecisionPolicy::fp8_e4m3);
  const PrecisionRaise raise = {.preset = "", .fp32_modules = {"head"}, .bf16_modules = {"wide"}};
  const auto wider = Widen(raise, Resolve(Raised(policy, raise), Gpu(9)), "", Gpu(9));
  ASSERT_TRUE(wider.has_value());
  EXPECT_EQ(Describe(*wider), "in fp32 with head in fp32");
  EXPECT_EQ(Widen(*wider, Resolve(Raised(policy, *wider), Gpu(9)), "", Gpu(9)), std::nullopt);
}

TEST(PrecisionRaise, DropsAFormatOfParametersThatOnlyRepeatsTheFormatOfItsModule) {
  PrecisionPolicy policy = Preset("bf16");
  for (const auto parameter : {PrecisionPolicy::bf16, PrecisionPolicy::fp32}) {
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match("head");
    rule.set_compute(PrecisionPolicy::bf16);
    rule.set_parameter(parameter);
  }
  EXPECT_THAT(Way(policy, Gpu(8), ""), ElementsAre("in fp32"));
  const PrecisionPolicy raised = Raised(policy, {.preset = "fp32"});
  EXPECT_EQ(raised.module_rules(0).parameter(), PrecisionPolicy::DTYPE_UNSPECIFIED);
  EXPECT_EQ(raised.module_rules(1).parameter(), PrecisionPolicy::fp32);
}

TEST(PrecisionRaise, StartsTheLossScaleBetweenThePolicysFloorAndCap) {
  PrecisionPolicy capped = Preset("keras-mixed-float16");  // Starts at 32768; GradScaler's default is 65536.
  capped.mutable_loss_scale()->mutable_dynamic()->set_cap(32768);
  EXPECT_THAT(Way(capped, Gpu(8), ""), ElementsAre("in bf16", "in fp32"));
  EXPECT_EQ(Resolve(Raised(capped, {.preset = "bf16"}), Gpu(8)).loss_scale.initial, 32768);
  PrecisionPolicy floored = Preset("megatron-fp16");  // Starts at 2^32.
  floored.mutable_loss_scale()->mutable_dynamic()->set_floor(131072);
  EXPECT_THAT(Way(floored, Gpu(8), ""), ElementsAre("in bf16", "in fp32"));
  EXPECT_EQ(Resolve(Raised(floored, {.preset = "bf16"}), Gpu(8)).loss_scale.initial, 131072);
  PrecisionPolicy fitting = Preset("fp16");
  fitting.mutable_loss_scale()->mutable_dynamic()->set_initial(1024);
  EXPECT_EQ(Resolve(Raised(fitting, {.preset = "bf16"}), Gpu(8)).loss_scale.initial, 1024);
}

TEST(PrecisionRaise, OfAModuleMayExceedTheLimitsOfAUsersRules) {
  PrecisionPolicy policy = Preset("fp16");
  for (int i = 0; i < 64; ++i) {
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match("wide");
    rule.set_compute(PrecisionPolicy::fp32);
  }
  ASSERT_TRUE(precision::ValidatePolicy(policy).empty());
  EXPECT_THAT(Way(policy, Gpu(8), "head"),
              ElementsAre("with head in fp32", "in bf16 with head in fp32", "in fp32 with head in fp32"));
  const std::string long_name(300, 'm');
  EXPECT_EQ(Resolve(Raised(policy, {.preset = "", .fp32_modules = {long_name}}), Gpu(8)).module_rules.size(), 65u);
}

TEST(PrecisionRaise, KeepsAnOpInFp32ThatOnlyTheNewPresetBans) {
  GraphBuilder b("own");
  const graph::ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 8}});
  b.Output("logits", b.Linear("head", x, 4));
  graph::Graph program = *std::move(b).Build();
  const graph::ValueId labels = program.AddInput("labels", {Dtype::kFloat32, {Dim::Batch(), 4}});
  program.AddNode({.op = "aten.binary_cross_entropy.default",
                   .arguments = {{"self", *program.FindOutput("logits")}, {"target", labels}},
                   .outputs = {},
                   .module_path = ""},
                  "loss", {Dtype::kFloat32, {}});
  const auto resolve = [&](const PrecisionRaise& raise) {
    return *ResolveRaised(Preset("keras-mixed-float16"), raise, program, Gpu(8), precision::OptimizerKind::kAdam);
  };
  ASSERT_TRUE(precision::CheckBans(program, resolve({})).ok());
  const precision::ResolvedPolicy raised = resolve({.preset = "bf16"});
  EXPECT_TRUE(precision::CheckBans(program, raised).ok()) << precision::CheckBans(program, raised);
  EXPECT_EQ(precision::DecideOp(raised, program, program.nodes().back()).op_class, graph::OpClass::kFp32);
  EXPECT_TRUE(resolve({.preset = "fp32"}).op_rules.empty());
}

// Returns a policy with a preset and some other fields, all drawn at random. Many such policies contradict themselves.
PrecisionPolicy RandomPolicy(SeededRandom& random) {
  using P = PrecisionPolicy;
  const auto draw = [&random](uint64_t num) { return random.Next() % num; };
  const auto is_set = [&draw] { return draw(8) == 0; };
  const auto format = [&draw] {
    constexpr P::Dtype kFormats[] = {P::fp32, P::tf32, P::bf16, P::fp16};
    return kFormats[draw(4)];
  };
  const std::vector<std::string> presets = precision::PresetNames();
  P policy = Preset(presets[draw(presets.size())]);
  if (is_set()) policy.set_compute(format());
  if (is_set()) policy.set_parameter(format());
  if (is_set()) policy.set_master(draw(2) == 0 ? P::fp32 : draw(2) == 0 ? P::none : P::bf16_remainder16);
  if (is_set()) policy.set_gradient(format());
  if (is_set()) policy.set_accumulation(format());
  if (is_set()) policy.set_optimizer_state(format());
  if (is_set()) policy.set_cast_mode(draw(2) == 0 ? P::MASTER : P::CAST);
  if (is_set()) policy.set_fp32_matmul(draw(2) == 0 ? P::fp32 : P::tf32);
  if (is_set()) policy.set_stochastic_rounding(true);
  policy.set_allow_unsafe(draw(2) == 0);
  if (is_set()) policy.mutable_fp8()->set_scaling(static_cast<v1::Fp8Recipe::Scaling>(draw(4)));
  if (draw(3) == 0) {
    const auto scale = [&draw] { return std::pow(2.0, 4.0 * static_cast<double>(draw(9))); };  // 1 to 2^32.
    v1::DynamicLossScale& dynamic = *policy.mutable_loss_scale()->mutable_dynamic();
    if (is_set()) dynamic.set_initial(scale());
    if (draw(3) == 0) dynamic.set_floor(scale());
    if (draw(3) == 0) dynamic.set_cap(scale());
  } else if (is_set()) {
    policy.mutable_loss_scale()->mutable_fixed()->set_scale(1024);
  }
  for (uint64_t i = draw(3); i > 0; --i) {
    constexpr const char* kModules[] = {"middle", "wide", "head", "*"};
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match(kModules[draw(4)]);
    rule.set_compute(draw(4) == 0 ? P::fp8_e4m3 : format());
    if (draw(2) == 0) rule.set_parameter(format());
    rule.set_exclude_forward(is_set());
  }
  return policy;
}

TEST(PrecisionRaiseProperties, EveryPolicyThatADeviceRunsCanBeRaisedUntilEverythingIsFp32) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  const v1::Device devices[] = {cpu, Gpu(7), Gpu(8), Gpu(9)};
  const graph::Graph program = Program();
  constexpr auto kAdam = precision::OptimizerKind::kAdam;
  int num_raised = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SeededRandom random(seed);
    const PrecisionPolicy policy = RandomPolicy(random);
    const v1::Device& device = devices[random.Next() % 4];
    if (!precision::ValidatePolicy(policy).empty() || !precision::ResolvePolicy(policy, program, device, kAdam).ok()) {
      continue;
    }
    PrecisionRaise raise;
    for (int num_raises = 0;; ++num_raises) {
      const auto now = ResolveRaised(policy, raise, program, device, kAdam);
      ASSERT_TRUE(now.ok()) << "seed " << seed << ": " << now.status() << "\n"
                            << Describe(raise) << "\n"
                            << policy.ShortDebugString();
      constexpr const char* kModules[] = {"", "middle", "wide", "head"};
      const auto wider = Widen(raise, *now, kModules[random.Next() % 4], device);
      if (!wider.has_value()) {
        EXPECT_EQ(now->formats.compute, Dtype::kFloat32) << "seed " << seed;
        EXPECT_TRUE(now->fp8_layers.empty()) << "seed " << seed;
        for (const precision::OpRow& row : now->ops) {
          EXPECT_TRUE(row.decision.op_class != graph::OpClass::kLower || row.decision.compute == Dtype::kFloat32)
              << "seed " << seed << ": " << row.op << " of " << row.module_path;
        }
        break;
      }
      ASSERT_LT(num_raises, 5) << "seed " << seed;
      raise = *wider;
      ++num_raised;
    }
  }
  EXPECT_GT(num_raised, 300) << "too few of the random policies are valid";
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
