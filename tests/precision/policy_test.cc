#include "precision/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/gpt.h"
#include "models/gpt2.h"
#include "models/lenet.h"
#include "precision/capability.h"
#include "precision/loss_scale.h"
#include "precision/pass.h"
#include "tests/golden_file.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

graph::Graph Lenet() { return graph::WithLossHead(models::BuildLenet({}).value()).value(); }

// A graph with one op of every kind that presets treat differently.
graph::Graph Mixed() {
  graph::GraphBuilder b("mixed");
  graph::ValueId x = b.Input("images", {Dtype::kFloat32, {graph::Dim::Batch(), 3, 8, 8}});
  x = b.Relu("act", b.BatchNorm2d("norm", b.Conv2d("conv", x, {.out_channels = 4, .kernel_size = 3, .padding = 1})));
  x = b.LayerNorm("ln", b.Linear("fc", b.Flatten("flat", x), 16));
  x = b.Add("add", x, b.Softmax("gate", b.Gelu("gelu", x), 1));
  b.Output("logits", b.Linear("head", b.Dropout("drop", x, 0.1), 10));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

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
    const auto policy = Resolve(PresetNamed(preset));
    ASSERT_TRUE(policy.ok()) << policy.status();
    ExpectGolden(std::string("tests/precision/golden/lenet-") + preset + ".txt", ToText(*policy));
  }
}

TEST(ResolvePolicy, TablesOfEveryPresetAreTheGoldenOnes) {
  for (const Preset& preset : AllPresets()) {
    const std::string name(preset.name);
    const auto on_gpu = ResolvePolicy(PresetNamed(name), Mixed(), Gpu(9, 0), OptimizerKind::kAdam);
    ASSERT_TRUE(on_gpu.ok()) << name << on_gpu.status();
    ExpectGolden("tests/precision/golden/mixed-" + name + ".txt", ToText(*on_gpu));
    const auto graph = ApplyPrecision(Mixed(), *on_gpu);
    ASSERT_TRUE(graph.ok()) << name << graph.status();
    EXPECT_TRUE(graph->Check().ok()) << name << graph->Check();
    EXPECT_EQ(graph->type(*graph->FindOutput("loss")).dtype, Dtype::kFloat32) << name;
  }
}

TEST(ResolvePolicy, TheTableSaysWhatHappensAtTheFloor) {
  for (const auto& [action, name] : {std::pair(v1::DynamicLossScale::CLAMP, "clamps"),
                                     {v1::DynamicLossScale::FAIL, "fails"},
                                     {v1::DynamicLossScale::FALL_BACK, "falls-back"}}) {
    v1::PrecisionPolicy policy = PresetNamed("fp16");
    policy.mutable_loss_scale()->mutable_dynamic()->set_floor(128);
    policy.mutable_loss_scale()->mutable_dynamic()->set_at_floor(action);
    ExpectGolden(absl::StrCat("tests/precision/golden/lenet-fp16-", name, ".txt"), ToText(*Resolve(policy)));
  }
}

TEST(ResolvePolicy, TorchsListsDifferOnACpu) {
  const auto on_cpu = ResolvePolicy(PresetNamed("torch-amp-bf16"), Mixed(), Cpu(true), OptimizerKind::kAdam);
  ExpectGolden("tests/precision/golden/mixed-torch-amp-bf16-cpu.txt", ToText(*on_cpu));
}

TEST(ResolvePolicy, CastsOfParametersStandInTheGraphOfPresetsThatKeepThemInFp32) {
  const std::string text = graph::ToText(*ApplyPrecision(
      Lenet(), *ResolvePolicy(PresetNamed("torch-amp-bf16"), Lenet(), Gpu(9, 0), OptimizerKind::kAdam)));
  EXPECT_THAT(text, HasSubstr("parameter %classifier.2.weight: float32[10, 128]"));
  EXPECT_THAT(text, HasSubstr("aten.to.dtype(self=%classifier.2.weight, dtype=bfloat16)"));
}

// Returns the format of a parameter's gradient in a converted graph. This is the format to which the parameter or its
// transpose is cast, if all casts have the same format; otherwise it is the parameter's own format.
Dtype GradientIn(const graph::Graph& graph, graph::ValueId value) {
  const Dtype own = graph.type(value).dtype;
  std::optional<Dtype> format;
  for (const graph::Node& node : graph.nodes()) {
    for (const graph::ValueId use : node.Uses()) {
      if (use == value) {
        const Dtype read = node.op == "aten.to.dtype"        ? std::get<Dtype>(*node.Find("dtype"))
                           : node.op == "aten.transpose.int" ? GradientIn(graph, node.outputs[0])
                                                             : own;
        format = format.value_or(read) == read ? read : own;
      }
    }
  }
  return format.value_or(own);
}

graph::Graph Gpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(3);
  spec.set_n_embd(128);
  spec.set_n_head(2);
  spec.set_n_positions(8);
  spec.set_vocab_size(17);
  return *graph::WithLossHead(*models::BuildGpt2(spec, 6));
}

TEST(ResolvePolicy, AWeightThatIsReadTransposedIsStoredAsTheProductWantsIt) {
  const auto resolved = ResolvePolicy(PresetNamed("bf16"), Gpt2(), Gpu(9, 0), OptimizerKind::kAdam);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  for (const ParameterRow& row : resolved->parameters) {
    const bool of_product =
        row.name.find(".c_") != std::string::npos;  // Weights and biases of c_attn, c_proj and c_fc.
    EXPECT_EQ(row.dtype, of_product ? Dtype::kBFloat16 : Dtype::kFloat32) << row.name;
    EXPECT_EQ(row.master, of_product ? Masters::kFloat32 : Masters::kNone) << row.name;
  }
  // Linear layers must read the stored weights, or their transposes, without a cast.
  const graph::Graph graph = *ApplyPrecision(Gpt2(), *resolved);
  std::set<graph::ValueId> transposed;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op == "aten.transpose.int") {
      transposed.insert(node.outputs[0]);
    }
    if (node.op == "aten.linear.default" && node.module_path != "lm_head") {
      EXPECT_TRUE(transposed.contains(*node.ValueOf("weight"))) << node.module_path;
    }
  }
}

TEST(ResolvePolicy, AGradientHasTheFormatOfTheCastsThatReadItsParameter) {
  const graph::Graph tied = *graph::WithLossHead(
      *models::BuildGpt({.num_layers = 3, .width = 128, .num_heads = 2, .vocabulary = 17, .sequence_length = 8}));
  for (const graph::Graph& model : {Mixed(), tied, Gpt2()}) {
    for (const Preset& preset : AllPresets()) {
      const auto resolved =
          ResolvePolicy(PresetNamed(std::string(preset.name)), model, Gpu(9, 0), OptimizerKind::kAdam);
      ASSERT_TRUE(resolved.ok()) << preset.name << resolved.status();
      const graph::Graph graph = *ApplyPrecision(model, *resolved);
      for (size_t i = 0; i < resolved->parameters.size(); ++i) {
        const ParameterRow& row = resolved->parameters[i];
        EXPECT_EQ(row.gradient, GradientIn(graph, graph.parameters()[i].value)) << preset.name << " " << row.name;
      }
    }
  }
}

TEST(ResolvePolicy, BehindCastsTheGradientsOfProductsHaveTheirFormat) {
  v1::PrecisionPolicy policy = PresetNamed("torch-amp-fp16");
  v1::ModuleRule* wide = policy.add_module_rules();
  wide->set_match("head");
  wide->set_compute(v1::PrecisionPolicy::fp32);
  const auto resolved = ResolvePolicy(policy, Mixed(), Gpu(9, 0), OptimizerKind::kAdam);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  std::vector<std::string> in_fp16;
  for (const ParameterRow& row : resolved->parameters) {
    EXPECT_EQ(row.dtype, Dtype::kFloat32) << row.name;
    if (row.gradient == Dtype::kFloat16) {
      in_fp16.push_back(row.name);
    }
  }
  EXPECT_THAT(in_fp16, ElementsAre("conv.weight", "conv.bias", "fc.weight", "fc.bias"));
}

TEST(ResolvePolicy, FieldsOverrideThePreset) {
  using P = v1::PrecisionPolicy;
  P cast = PresetNamed("bf16");
  cast.set_cast_mode(P::CAST);
  EXPECT_EQ(Resolve(cast)->formats.parameter, Dtype::kFloat32);
  P computed;
  computed.set_compute(P::fp16);
  EXPECT_EQ(Resolve(computed)->formats.parameter, Dtype::kFloat16);
  EXPECT_EQ(Resolve(computed)->formats.master, Masters::kFloat32);
  EXPECT_EQ(Resolve(computed)->loss_scale.kind, LossScaleConfig::Kind::kDynamic);
  P deepspeed = PresetNamed("deepspeed-fp16");
  deepspeed.set_accumulation(P::fp32);
  deepspeed.mutable_loss_scale()->mutable_dynamic()->set_initial(1024);
  EXPECT_EQ(Resolve(deepspeed)->formats.accumulation, Dtype::kFloat32);
  EXPECT_EQ(Resolve(deepspeed)->loss_scale.initial, 1024);
  EXPECT_EQ(Resolve(deepspeed)->loss_scale.growth_interval, 1000) << "of the preset";
  P ieee = PresetNamed("tf32");
  ieee.set_fp32_matmul(P::fp32);
  EXPECT_FALSE(ResolvePolicy(ieee, Lenet(), Gpu(9, 0), OptimizerKind::kSgd)->formats.tf32_matmul);
}

TEST(ResolvePolicy, FormatsThatContradictEachOtherAreAllNamed) {
  using P = v1::PrecisionPolicy;
  P policy = PresetNamed("fp16");
  policy.set_parameter(P::bf16);
  policy.set_master(P::bf16_remainder16);
  policy.set_gradient(P::fp32);
  policy.set_accumulation(P::bf16);
  policy.set_stochastic_rounding(true);
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ViolationsOf(Resolve(policy).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, UnorderedElementsAre("precision.parameter", "precision.master", "precision.gradient",
                                           "precision.accumulation", "precision.stochastic_rounding"));
}

TEST(ResolvePolicy, Fp16ScalesDynamicallyAndTheOthersDoNot) {
  EXPECT_EQ(Resolve(PresetNamed("fp32"))->loss_scale.kind, LossScaleConfig::Kind::kOff);
  EXPECT_EQ(Resolve(PresetNamed("bf16"))->loss_scale.kind, LossScaleConfig::Kind::kOff);
  const LossScaleConfig scale = Resolve(PresetNamed("fp16"))->loss_scale;
  EXPECT_EQ(scale.kind, LossScaleConfig::Kind::kDynamic);
  EXPECT_EQ(scale.initial, 65536);
  EXPECT_EQ(scale.growth_factor, 2);
  EXPECT_EQ(scale.backoff_factor, 0.5);
  EXPECT_EQ(scale.growth_interval, 2000);
}

TEST(ResolvePolicy, OptimizersSkipTogetherInApexsPresetsOrWhereThePolicySaysSo) {
  using Skip = LossScaleConfig::OptimizerSkip;
  for (const Preset& preset : AllPresets()) {
    const bool is_apex = preset.name.starts_with("apex-");
    EXPECT_EQ(preset.loss_scale.optimizer_skip, is_apex ? Skip::kAllTogether : Skip::kEachAlone) << preset.name;
  }
  const auto skip_of = [](const std::string& name, v1::LossScale::OptimizerSkip rule, bool off = false) {
    v1::PrecisionPolicy policy = PresetNamed(name);
    policy.mutable_loss_scale()->set_optimizer_skip(rule);
    if (off) {
      policy.mutable_loss_scale()->mutable_off();
    }
    return ResolvePolicy(policy, Mixed(), Gpu(9, 0), OptimizerKind::kSgd)->loss_scale;
  };
  EXPECT_EQ(skip_of("fp16", v1::LossScale::ALL_TOGETHER).optimizer_skip, Skip::kAllTogether);
  EXPECT_EQ(skip_of("fp16", v1::LossScale::ALL_TOGETHER).initial, 65536) << "the rest is the preset's";
  EXPECT_EQ(skip_of("apex-o1", v1::LossScale::EACH_ALONE).optimizer_skip, Skip::kEachAlone);
  EXPECT_EQ(skip_of("apex-o1", v1::LossScale::OPTIMIZER_SKIP_UNSPECIFIED, true).optimizer_skip, Skip::kAllTogether);
  EXPECT_EQ(skip_of("bf16", v1::LossScale::ALL_TOGETHER, true).kind, LossScaleConfig::Kind::kOff);
}

TEST(Presets, OurFp16ScalesAsGradScalerWithinBoundsAndApexsLevelsAlike) {
  LossScaleConfig bounded = FindPreset("torch-amp-fp16")->loss_scale;
  EXPECT_EQ(bounded.floor, 0) << "GradScaler has none";
  bounded.floor = 1;
  bounded.cap = 0x1p24;
  EXPECT_EQ(FindPreset("fp16")->loss_scale, bounded);
  EXPECT_EQ(FindPreset("apex-o1")->loss_scale, FindPreset("apex-o2")->loss_scale);
}

TEST(ResolvePolicy, LowPrecisionWithoutAMasterIsRefusedNamingTheField) {
  for (const char* preset : {"fp16", "bf16"}) {
    v1::PrecisionPolicy policy = PresetNamed(preset);
    policy.set_master(v1::PrecisionPolicy::none);
    const auto status = Resolve(policy, Cpu(true), OptimizerKind::kAdam).status();
    EXPECT_THAT(ViolationsOf(status), ElementsAre(Field(&FieldViolation::field, "precision.master"))) << preset;
  }
}

// A bf16 policy without masters, and a rule that stores the parameters of the classifier in fp16.
v1::PrecisionPolicy BareWithFp16Rule(bool stochastic_rounding) {
  v1::PrecisionPolicy policy = PresetNamed("bf16");
  policy.set_master(v1::PrecisionPolicy::none);
  policy.set_stochastic_rounding(stochastic_rounding);
  v1::ModuleRule* rule = policy.add_module_rules();
  rule->set_match("classifier*");
  rule->set_compute(v1::PrecisionPolicy::fp16);
  return policy;
}

TEST(ResolvePolicy, Fp16ParametersWithoutAMasterAreRefusedIfARuleAsksForThem) {
  for (const bool stochastic_rounding : {true, false}) {
    const v1::PrecisionPolicy policy = BareWithFp16Rule(stochastic_rounding);
    EXPECT_THAT(ViolationsOf(Resolve(policy).status()),
                ElementsAre(AllOf(Field(&FieldViolation::field, "precision.module_rules"),
                                  Field(&FieldViolation::description, HasSubstr("classifier.0.weight")))));
    EXPECT_TRUE(Resolve(policy, Cpu(true), OptimizerKind::kNone).ok()) << "a prediction updates no parameter";
    v1::PrecisionPolicy in_fp32 = policy;
    in_fp32.mutable_module_rules(0)->set_parameter(v1::PrecisionPolicy::fp32);
    EXPECT_TRUE(Resolve(in_fp32).ok());
    v1::PrecisionPolicy unsafe = policy;
    unsafe.set_allow_unsafe(true);
    EXPECT_TRUE(Resolve(unsafe).ok());
  }
  v1::PrecisionPolicy with_master = BareWithFp16Rule(false);
  with_master.set_master(v1::PrecisionPolicy::fp32);
  EXPECT_TRUE(Resolve(with_master).ok());
}

TEST(ResolvePolicy, WarnsOfFp16InRulesAsOfFp16InThePolicy) {
  v1::PrecisionPolicy policy = BareWithFp16Rule(/*stochastic_rounding=*/true);
  policy.set_allow_unsafe(true);
  const auto fp16_is_bare = HasSubstr("last place of float16");
  const auto scale_is_off = HasSubstr("loss_scale is off");
  EXPECT_THAT(Resolve(policy, Gpu(9, 0))->warnings, ElementsAre(fp16_is_bare, scale_is_off));
  policy.set_stochastic_rounding(false);
  EXPECT_THAT(Resolve(policy, Gpu(9, 0))->warnings,
              ElementsAre(HasSubstr("last place of bfloat16"), fp16_is_bare, scale_is_off));
}

TEST(ResolvePolicy, KnownButUnsupportedIsUnimplementedNamingTheField) {
  v1::PrecisionPolicy stored = PresetNamed("fp8");
  stored.set_parameter(v1::PrecisionPolicy::fp8_e4m3);
  EXPECT_EQ(Resolve(stored).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Resolve(stored).status().message()), HasSubstr("precision.parameter"));
  v1::PrecisionPolicy wire = PresetNamed("bf16");
  wire.set_reduction(v1::PrecisionPolicy::bf16);
  EXPECT_THAT(std::string(Resolve(wire).status().message()), HasSubstr("precision.reduction"));
}

TEST(ResolvePolicy, ParametersBelowFp32AreStoredAsThePolicySays) {
  using P = v1::PrecisionPolicy;
  P halves = PresetNamed("bf16");
  halves.set_master(P::bf16_remainder16);
  halves.set_optimizer_state(P::bf16);
  const auto in_halves = Resolve(halves, Cpu(true), OptimizerKind::kAdam);
  ASSERT_TRUE(in_halves.ok()) << in_halves.status();
  EXPECT_EQ(in_halves->formats.master, Masters::kRemainder16);
  EXPECT_EQ(in_halves->formats.optimizer_state, Dtype::kBFloat16);
  P stochastic = PresetNamed("bf16");
  stochastic.set_master(P::none);
  stochastic.set_stochastic_rounding(true);
  const auto rounded = Resolve(stochastic, Cpu(true), OptimizerKind::kAdam);
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  EXPECT_TRUE(rounded->formats.stochastic_rounding);
  P bare = PresetNamed("fp16");
  bare.set_master(P::none);
  bare.set_allow_unsafe(true);
  const auto without = Resolve(bare, Cpu(true), OptimizerKind::kAdam);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->formats.master, Masters::kNone);
}

TEST(ResolvePolicy, StateThatNoKernelKeepsIsRefusedNamingTheField) {
  using P = v1::PrecisionPolicy;
  P state = PresetNamed("fp16");
  state.set_optimizer_state(P::fp16);
  EXPECT_THAT(ViolationsOf(Resolve(state).status()),
              ElementsAre(Field(&FieldViolation::field, "precision.optimizer_state")));
  P stochastic = PresetNamed("fp16");
  stochastic.set_master(P::none);
  stochastic.set_stochastic_rounding(true);
  EXPECT_THAT(ViolationsOf(Resolve(stochastic).status()),
              ElementsAre(Field(&FieldViolation::field, "precision.stochastic_rounding")));
}

TEST(ResolvePolicy, AutoTakesWhatTheDeviceComputesNatively) {
  const auto on = [](const v1::Device& device) {
    return ResolvePolicy(PresetNamed("auto"), Lenet(), device, OptimizerKind::kSgd)->preset;
  };
  EXPECT_EQ(on(Gpu(8, 0)), "bf16");
  EXPECT_EQ(on(Gpu(7, 5)), "fp16");
  EXPECT_EQ(on(Gpu(6, 1)), "fp32");
  EXPECT_EQ(on(Cpu(true)), "bf16");
  EXPECT_EQ(on(Cpu(false)), "fp32") << "emulated formats are never chosen";
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
  v1::PrecisionPolicy policy = PresetNamed("bf16");
  auto* rule = policy.add_module_rules();
  rule->set_match("classifier.2");
  rule->set_compute(v1::PrecisionPolicy::fp32);
  const auto resolved = Resolve(policy);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  for (const ParameterRow& row : resolved->parameters) {
    const bool head = row.name.starts_with("classifier.2.");
    EXPECT_EQ(row.dtype, head ? Dtype::kFloat32 : Dtype::kBFloat16) << row.name;
    EXPECT_EQ(row.master, head ? Masters::kNone : Masters::kFloat32) << row.name;
  }
}

TEST(ResolvePolicy, WhatTheModelItselfKeepsInFp32StaysThere) {
  graph::Graph model = Lenet();
  std::vector<graph::Node> nodes = model.nodes();
  for (graph::Node& node : nodes) {
    node.keeps_fp32 = node.module_path == "classifier.2";
  }
  model.SetNodes(nodes);
  for (const char* preset : {"bf16", "torch-amp-bf16", "fp8", "keras-mixed-bfloat16"}) {
    const auto resolved = ResolvePolicy(PresetNamed(preset), model, Cpu(true), OptimizerKind::kSgd);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    const graph::Graph applied = ApplyPrecision(model, *resolved).value();
    int kept = 0;
    for (const graph::Node& node : applied.nodes()) {
      if (node.keeps_fp32) {
        EXPECT_EQ(applied.type(*node.ValueOf("input")).dtype, Dtype::kFloat32) << preset;
        EXPECT_EQ(applied.type(*node.ValueOf("weight")).dtype, Dtype::kFloat32) << preset;
        EXPECT_EQ(applied.type(node.outputs[0]).dtype, Dtype::kFloat32) << preset;
        ++kept;
      }
    }
    EXPECT_EQ(kept, 1) << preset;
  }
}

TEST(ResolvePolicy, AModuleRuleMayNameAnotherFormatOrKeepOnlyTheParameters) {
  v1::PrecisionPolicy policy = PresetNamed("fp16");
  v1::ModuleRule* wider = policy.add_module_rules();
  wider->set_match("classifier.0");
  wider->set_compute(v1::PrecisionPolicy::bf16);
  v1::ModuleRule* stored = policy.add_module_rules();
  stored->set_match("classifier.2");
  stored->set_parameter(v1::PrecisionPolicy::fp32);
  const auto resolved = Resolve(policy);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  for (const ParameterRow& row : resolved->parameters) {
    const Dtype expected = row.name.starts_with("classifier.0.")   ? Dtype::kBFloat16
                           : row.name.starts_with("classifier.2.") ? Dtype::kFloat32
                                                                   : Dtype::kFloat16;
    EXPECT_EQ(row.dtype, expected) << row.name;
  }
  EXPECT_EQ(resolved->ops[9].decision.compute, Dtype::kFloat16) << "classifier.2 computes in the policy's format";
  EXPECT_EQ(FindCapabilityGap(policy, Gpu(7, 5))->needed, 80) << "for the bf16 of the rule";
}

TEST(ValidatePolicy, NamesEveryViolation) {
  v1::PrecisionPolicy policy = PresetNamed("bf61");
  policy.set_compute(v1::PrecisionPolicy::none);
  auto* dynamic = policy.mutable_loss_scale()->mutable_dynamic();
  dynamic->set_initial(-1);
  dynamic->set_growth_factor(1);
  dynamic->set_backoff_factor(1);
  dynamic->set_growth_interval(0);
  dynamic->set_hysteresis(0);
  policy.mutable_loss_scale()->set_optimizer_skip(static_cast<v1::LossScale::OptimizerSkip>(9));
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ValidatePolicy(policy)) {
    fields.push_back(violation.field);
  }
  const std::string path = "precision.loss_scale.dynamic.";
  EXPECT_THAT(fields, UnorderedElementsAre("precision.preset", "precision.compute", path + "initial",
                                           path + "growth_factor", path + "backoff_factor", path + "growth_interval",
                                           path + "hysteresis", "precision.loss_scale.optimizer_skip"));
}

TEST(ValidatePolicy, DefaultsAndPresetsAreValid) {
  EXPECT_THAT(ValidatePolicy({}), IsEmpty());
  for (const std::string& name : PresetNames()) {
    EXPECT_THAT(ValidatePolicy(PresetNamed(name)), IsEmpty()) << name;
  }
}

TEST(ResolvePolicy, WarnsOfWhatIsLikelyNotMeant) {
  v1::PrecisionPolicy policy = PresetNamed("fp16");
  policy.mutable_loss_scale()->mutable_off();
  for (const char* match : {"no_such_module*", "*"}) {
    v1::ModuleRule& rule = *policy.add_module_rules();
    rule.set_match(match);
    rule.set_compute(v1::PrecisionPolicy::fp32);
  }
  v1::OpRule& rule = *policy.add_op_rules();
  rule.set_match("aten.nothing");
  rule.set_policy(v1::OpRule::fp32);
  EXPECT_THAT(Resolve(policy, Gpu(9, 0))->warnings,
              ElementsAre(HasSubstr("loss_scale is off"), HasSubstr("no_such_module*"), HasSubstr("aten.nothing")));
  EXPECT_THAT(Resolve(PresetNamed("fp16"), Gpu(9, 0))->warnings, IsEmpty());
}

TEST(CheckCapability, NeedsWhatTheFormatNeeds) {
  EXPECT_TRUE(CheckCapability(PresetNamed("bf16"), Gpu(8, 0)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability(PresetNamed("bf16"), Gpu(7, 5))), "CAPABILITY_TOO_LOW");
  EXPECT_EQ(ReasonOf(CheckCapability(PresetNamed("tf32"), Gpu(7, 5))), "CAPABILITY_TOO_LOW");
  EXPECT_TRUE(CheckCapability(PresetNamed("fp16"), Gpu(7, 0)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability(PresetNamed("fp16"), Gpu(6, 1))), "CAPABILITY_TOO_LOW");
  EXPECT_TRUE(CheckCapability(PresetNamed("fp16"), Cpu(false)).ok());
  EXPECT_EQ(ReasonOf(CheckCapability(PresetNamed("tf32"), Cpu(true))), "CAPABILITY_TOO_LOW");
  EXPECT_EQ(FindCapabilityGap(PresetNamed("bf16"), Gpu(7, 5))->needed, 80);
  EXPECT_EQ(FindCapabilityGap(PresetNamed("bf16"), Gpu(7, 5))->available, 75);
  EXPECT_FALSE(FindCapabilityGap(PresetNamed("bf16"), Cpu(false)).has_value());
}

TEST(IsEmulated, Bf16IsNativeOnlyWithItsInstructionsAndFp16NeverOnACpu) {
  EXPECT_FALSE(IsEmulated(PresetNamed("bf16"), Cpu(true)));
  EXPECT_TRUE(IsEmulated(PresetNamed("bf16"), Cpu(false)));
  EXPECT_TRUE(IsEmulated(PresetNamed("fp16"), Cpu(true)));
  EXPECT_FALSE(IsEmulated(PresetNamed("fp16"), Gpu(9, 0)));
  EXPECT_FALSE(IsEmulated(PresetNamed("fp32"), Cpu(false)));
}

TEST(ApplyPrecision, GraphsOfTheLenetAreTheGoldenOnes) {
  for (const char* preset : {"bf16", "fp16"}) {
    const auto graph = ApplyPrecision(Lenet(), *Resolve(PresetNamed(preset)));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(graph->Check().ok()) << graph->Check();
    ExpectGolden(std::string("tests/precision/golden/lenet-graph-") + preset + ".txt", graph::ToText(*graph));
  }
}

TEST(ApplyPrecision, OnlyTheInputAndTheLogitsAreCast) {
  EXPECT_EQ(CountCasts(*ApplyPrecision(Lenet(), *Resolve(PresetNamed("bf16")))), 2);
}

TEST(ApplyPrecision, Fp32LeavesTheGraphAsItIs) {
  EXPECT_EQ(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(PresetNamed("fp32")))), graph::ToText(Lenet()));
}

TEST(ApplyPrecision, EmulatesFp16OnACpuOnly) {
  EXPECT_THAT(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(PresetNamed("fp16")))), HasSubstr("ampd.conv2d_wide"));
  EXPECT_THAT(graph::ToText(*ApplyPrecision(Lenet(), *Resolve(PresetNamed("fp16"), Gpu(9, 0)))),
              Not(HasSubstr("_wide(")));
}

TEST(ApplyPrecision, MultipliesBf16InFp32WhereTheCpuIsSlowerOrHasNoProductsOfIt) {
  const auto on = [](const v1::Device& device) {
    return graph::ToText(*ApplyPrecision(Lenet(), *Resolve(PresetNamed("bf16"), device)));
  };
  EXPECT_THAT(on(Cpu()), Not(HasSubstr("ampd.")));
  EXPECT_THAT(on(Cpu(/*native_bf16=*/false)), HasSubstr("bfloat16[B, 10] = ampd.linear_wide"));
  EXPECT_THAT(on(CpuWithHiddenAmx()), HasSubstr("bfloat16[B, 10] = ampd.linear_wide"));
  v1::Device with_amx = CpuWithHiddenAmx();
  with_amx.add_instruction_sets("amx_bf16");
  EXPECT_THAT(on(with_amx), Not(HasSubstr("ampd.")));
}

// A graph with one convolution with this stride, of images with `columns` columns.
graph::Graph Convolution(int64_t columns, int64_t stride) {
  graph::GraphBuilder b("convolution");
  const graph::ValueId images = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 4, 8, columns}});
  b.Output("features", b.Conv2d("conv", images, {.out_channels = 4, .kernel_size = 3, .stride = stride, .padding = 1}));
  return std::move(b).Build().value();
}

TEST(ApplyPrecision, ConvolvesImagesThatAreNarrowerThanTheStrideInFp32OnACpu) {
  const auto is_wide = [](const graph::Graph& model, const char* preset, const v1::Device& device) {
    const ResolvedPolicy policy = *ResolvePolicy(PresetNamed(preset), model, device, OptimizerKind::kAdam);
    const bool is_wide = absl::StrContains(graph::ToText(*ApplyPrecision(model, policy)), "ampd.conv2d_wide");
    EXPECT_EQ(policy.ops[0].decision.upcast, is_wide) << "the table says what the graph does";
    return is_wide;
  };
  for (const char* preset : {"bf16", "torch-amp-bf16"}) {
    EXPECT_TRUE(is_wide(Convolution(1, 2), preset, Cpu())) << preset;
    EXPECT_FALSE(is_wide(Convolution(2, 2), preset, Cpu())) << preset;
    EXPECT_FALSE(is_wide(Convolution(1, 1), preset, Cpu())) << preset;
    EXPECT_FALSE(is_wide(Convolution(1, 2), preset, Gpu(8, 0))) << preset;
  }
  EXPECT_FALSE(is_wide(Convolution(1, 2), "fp32", Cpu()));
}

// A graph with a linear layer to `num_classes` classes and its cross entropy.
graph::Graph Classifier(int64_t num_classes) {
  graph::GraphBuilder b("classifier");
  const graph::ValueId images = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 8}});
  b.Output("logits", b.Linear("head", images, num_classes));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

TEST(ApplyPrecision, ACrossEntropyOverManyClassesReadsLogitsAsTheyAre) {
  for (const char* preset : {"fp32", "bf16", "torch-amp-bf16"}) {
    const graph::Graph many = *ApplyPrecision(Classifier(kManyClasses), *Resolve(PresetNamed(preset)));
    EXPECT_TRUE(many.Check().ok()) << many.Check();
    EXPECT_THAT(graph::ToText(many),
                HasSubstr("float32[] = ampd.cross_entropy(self=%linear, target=%labels, reduction=1)"))
        << preset;
    const graph::Graph fewer = *ApplyPrecision(Classifier(kManyClasses - 1), *Resolve(PresetNamed(preset)));
    EXPECT_THAT(graph::ToText(fewer), HasSubstr("aten.cross_entropy_loss.default"));
    EXPECT_EQ(CountCasts(fewer) - CountCasts(many), preset == std::string("fp32") ? 0 : 1);
  }
}

TEST(ApplyPrecision, ACrossEntropyOfAnotherKindIsLibTorchs) {
  for (const auto& [argument, operand] :
       {std::pair<std::string, graph::Operand>{"label_smoothing", 0.1}, {"reduction", int64_t{0}}}) {
    graph::Graph model = Classifier(kManyClasses);
    std::vector<graph::Node> nodes = model.nodes();
    nodes.back().Set(argument, operand);
    model.SetNodes(std::move(nodes));
    EXPECT_THAT(graph::ToText(*ApplyPrecision(model, *Resolve(PresetNamed("bf16")))),
                HasSubstr("aten.cross_entropy_loss.default"))
        << argument;
  }
}

TEST(ResolvePolicy, SaysWhereBf16SavesNoTime) {
  const auto on_slow = Resolve(PresetNamed("bf16"), CpuWithHiddenAmx());
  EXPECT_FALSE(on_slow->emulated());
  EXPECT_THAT(on_slow->warnings, Contains(HasSubstr("bfloat16 saves memory and no time on cpu")));
  EXPECT_THAT(ToText(*on_slow), HasSubstr("op aten.linear.default lower bfloat16 in fp32"));
  EXPECT_THAT(Resolve(PresetNamed("bf16"))->warnings, Not(Contains(HasSubstr("saves memory"))));
}

TEST(ApplyPrecision, CastsNeverStandInFrontOfAWrittenArgument) {
  graph::Graph graph = Mixed();
  std::vector<graph::Node> nodes = graph.nodes();
  for (graph::Node& node : nodes) {
    node.op = node.op == "aten.relu.default" ? "aten.relu_.default" : node.op;
  }
  graph.SetNodes(nodes);
  v1::PrecisionPolicy policy = PresetNamed("bf16");
  v1::OpRule& rule = *policy.add_op_rules();
  rule.set_match("aten.relu*");
  rule.set_policy(v1::OpRule::fp32);
  const auto resolved = ResolvePolicy(policy, graph, Gpu(9, 0), OptimizerKind::kAdam);
  const std::string text = graph::ToText(*ApplyPrecision(graph, *resolved));
  EXPECT_THAT(text, HasSubstr("aten.relu.default(self=%batch_norm_float32)"));
  EXPECT_THAT(text, Not(HasSubstr("relu_.default")));
}

TEST(ApplyPrecision, TheEvaluationProgramTakesTheSameTable) {
  const auto eval = graph::WithEvalHead(graph::EvalProgram(models::BuildLenet({}).value())).value();
  const auto graph = ApplyPrecision(eval, *Resolve(PresetNamed("bf16")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->Check().ok()) << graph->Check();
  EXPECT_EQ(graph->type(*graph->FindOutput("loss_sum")).dtype, Dtype::kFloat32);
  EXPECT_EQ(graph->type(*graph->FindOutput("num_correct")).dtype, Dtype::kInt64);
}

TEST(LossScaleText, ReadsBackAsTheSameScaleAndPowersOfTwoAreWhole) {
  EXPECT_EQ(LossScaleText(65536), "65536");
  EXPECT_EQ(LossScaleText(0x1p24), "16777216");
  EXPECT_EQ(LossScaleText(0x1p32), "4294967296");
  EXPECT_EQ(LossScaleText(0.1f), "0.1");
  EXPECT_EQ(LossScaleText(std::numeric_limits<double>::infinity()), "inf");
  for (float scale = 0x1p-40f; std::isfinite(scale); scale *= 1.7f) {
    EXPECT_EQ(std::stof(LossScaleText(scale)), scale);
  }
}

TEST(ValidatePolicy, BoundsTheNumberOfRulesAndTheirGlobs) {
  v1::PrecisionPolicy policy;
  for (int i = 0; i < 64; ++i) {
    policy.add_module_rules()->set_match(std::string(256, 'a'));
    v1::OpRule* const rule = policy.add_op_rules();
    rule->set_match("aten.*");
    rule->set_policy(v1::OpRule::fp32);
  }
  EXPECT_TRUE(ValidatePolicy(policy).empty());
  *policy.add_op_rules() = policy.op_rules(0);
  policy.mutable_module_rules(3)->set_match(std::string(257, 'a'));
  const std::vector<FieldViolation> violations = ValidatePolicy(policy);
  ASSERT_EQ(violations.size(), 2);
  EXPECT_EQ(violations[0].field, "precision.op_rules");
  EXPECT_EQ(violations[0].description, "has 65 entries; at most 64");
  EXPECT_EQ(violations[1].field, "precision.module_rules[3].match");
  EXPECT_THAT(ValidateAdmittedPolicy(policy), IsEmpty()) << "the trainer adds rules for modules with any name";
}

TEST(ValidatePolicy, RefusesLossScalesWhoseReciprocalIsInfiniteInFp32) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  constexpr double kSubnormal = 1e-40;
  using Set = void (*)(v1::LossScale&, double);
  const std::pair<const char*, Set> fields[] = {
      {"static.scale", [](v1::LossScale& scaling, double scale) { scaling.mutable_fixed()->set_scale(scale); }},
      {"dynamic.floor", [](v1::LossScale& scaling, double scale) { scaling.mutable_dynamic()->set_floor(scale); }},
      {"dynamic.initial", [](v1::LossScale& scaling, double scale) { scaling.mutable_dynamic()->set_initial(scale); }},
      {"dynamic.cap", [](v1::LossScale& scaling, double scale) {
         scaling.mutable_dynamic()->set_initial(scale);
         scaling.mutable_dynamic()->set_cap(scale);
       }}};
  for (const auto& [field, set] : fields) {
    v1::PrecisionPolicy policy = PresetNamed("torch-amp-fp16");
    set(*policy.mutable_loss_scale(), kLeast);
    EXPECT_THAT(ValidatePolicy(policy), IsEmpty()) << field;
    set(*policy.mutable_loss_scale(), kSubnormal);
    const std::vector<FieldViolation> violations = ValidatePolicy(policy);
    ASSERT_FALSE(violations.empty()) << field;
    EXPECT_EQ(violations.back().field, absl::StrCat("precision.loss_scale.", field));
    EXPECT_EQ(violations.back().description, "is 1e-40; it must be at least 1.1754944e-38 and finite in fp32");
    EXPECT_THAT(ValidateAdmittedPolicy(policy), IsEmpty()) << "an earlier version may have admitted " << field;
  }
}

}  // namespace
}  // namespace ampd::precision
