#include "precision/fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/gpt.h"
#include "models/gpt2.h"
#include "precision/capability.h"
#include "precision/cost/memory.h"
#include "precision/pass.h"
#include "precision/table.h"
#include "tests/golden_file.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dim;
using graph::Dtype;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using v1::PrecisionPolicy;
using Scaling = Fp8Recipe::Scaling;

PrecisionPolicy WithRule(PrecisionPolicy policy, const std::string& match, PrecisionPolicy::Dtype compute) {
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match(match);
  rule.set_compute(compute);
  return policy;
}

graph::Graph Gpt(int64_t num_layers = 4) {
  return graph::WithLossHead(
             models::BuildGpt(
                 {.num_layers = num_layers, .width = 128, .num_heads = 4, .vocabulary = 64, .sequence_length = 16})
                 .value())
      .value();
}

graph::Graph Mlp(const std::vector<int64_t>& widths) {
  graph::GraphBuilder b("mlp");
  graph::ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 64}});
  for (size_t i = 0; i < widths.size(); ++i) {
    x = b.Linear("layers." + std::to_string(i), x, widths[i]);
  }
  b.Output("logits", x);
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

absl::StatusOr<ResolvedPolicy> Resolve(const PrecisionPolicy& policy, const graph::Graph& graph,
                                       const v1::Device& device = Gpu(9, 0)) {
  return ResolvePolicy(policy, graph, device, OptimizerKind::kAdam);
}

std::vector<std::string> LayersOf(const absl::StatusOr<ResolvedPolicy>& policy) {
  std::vector<std::string> modules;
  if (!policy.ok()) {
    ADD_FAILURE() << policy.status();
    return modules;
  }
  for (const Fp8Layer& layer : policy->fp8_layers) {
    modules.push_back(layer.module_path);
  }
  return modules;
}

TEST(Fp8Layers, AreTheLinearOnesOfTheInnerBlocks) {
  const std::string h = "transformer.h.1.";
  EXPECT_THAT(LayersOf(Resolve(PresetNamed("fp8"), Gpt(3))),
              ElementsAre(h + "attn.c_attn", h + "attn.c_proj", h + "mlp.c_fc", h + "mlp.c_proj"));
  EXPECT_THAT(LayersOf(Resolve(PresetNamed("fp8"), Mlp({128, 128, 128, 10}))), ElementsAre("layers.1", "layers.2"));
}

TEST(Fp8Layers, AWeightThatIsReadTransposedTakesPart) {
  v1::Gpt2Spec spec;
  spec.set_n_layer(3);
  spec.set_n_embd(128);
  spec.set_n_head(4);
  spec.set_n_positions(16);
  spec.set_vocab_size(64);
  const graph::Graph gpt2 = graph::WithLossHead(models::BuildGpt2(spec, 0).value()).value();
  const auto policy = Resolve(PresetNamed("fp8"), gpt2);
  const std::string h = "transformer.h.1.";
  EXPECT_THAT(LayersOf(policy), ElementsAre(h + "attn.c_attn", h + "attn.c_proj", h + "mlp.c_fc", h + "mlp.c_proj"));
  const graph::Graph graph = ApplyPrecision(gpt2, *policy).value();
  const auto in_fp8 = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                   [](const graph::Node& node) { return node.op == "ampd.linear_fp8"; });
  ASSERT_NE(in_fp8, graph.nodes().end());
  EXPECT_EQ(graph::ToText(graph.type(*in_fp8->ValueOf("weight"))), "bfloat16[384, 128]");
}

TEST(Fp8Layers, GoldenTableAndGraphOfAGpt) {
  const auto policy = Resolve(PresetNamed("fp8-delayed"), Gpt(3), Cpu());
  ASSERT_TRUE(policy.ok()) << policy.status();
  ExpectGolden("tests/precision/golden/gpt-fp8-delayed.txt", ToText(*policy));
  const auto graph = ApplyPrecision(Gpt(3), *policy);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->Check().ok()) << graph->Check();
  ExpectGolden("tests/precision/golden/gpt-graph-fp8-delayed.txt", graph::ToText(*graph));
}

TEST(Fp8Layers, RulesTakeLayersInAndOut) {
  PrecisionPolicy policy = WithRule(PresetNamed("fp8"), "*.mlp.*", PrecisionPolicy::bf16);
  policy = WithRule(policy, "transformer.h.0.attn.c_proj", PrecisionPolicy::fp8_e4m3);
  EXPECT_THAT(LayersOf(Resolve(policy, Gpt(3))),
              ElementsAre("transformer.h.0.attn.c_proj", "transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_proj"));
}

TEST(Fp8Layers, ARuleAloneBringsFp8ToItsModules) {
  const auto policy =
      Resolve(WithRule(PresetNamed("bf16"), "layers.1", PrecisionPolicy::fp8_e4m3), Mlp({128, 128, 128, 10}));
  EXPECT_THAT(LayersOf(policy), ElementsAre("layers.1"));
  EXPECT_EQ(policy->fp8->scaling, Scaling::kCurrent);
  EXPECT_THAT(LayersOf(Resolve(PresetNamed("bf16"), Mlp({128, 128, 128, 10}))), IsEmpty());
}

TEST(Fp8Layers, ARecipeBringsFp8ToAnyPreset) {
  PrecisionPolicy policy = PresetNamed("megatron-bf16");
  policy.mutable_fp8()->set_scaling(v1::Fp8Recipe::BLOCK);
  const auto resolved = Resolve(policy, Mlp({128, 128, 128, 10}));
  EXPECT_THAT(LayersOf(resolved), ElementsAre("layers.1", "layers.2"));
  EXPECT_EQ(resolved->fp8->gradient, Dtype::kFloat8E4M3) << "as fp8-block has it";
}

TEST(Fp8Layers, ProductsMayStayInTheComputeFormat) {
  PrecisionPolicy policy = PresetNamed("fp8");
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match("layers.1");
  rule.set_exclude_weight_gradient(true);
  const auto resolved = Resolve(policy, Mlp({128, 128, 10}));
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ASSERT_THAT(LayersOf(resolved), ElementsAre("layers.1"));
  EXPECT_EQ(resolved->fp8_layers[0].products, (Fp8Products{true, true, false}));
  EXPECT_THAT(ToText(*resolved), HasSubstr("float8_e4m3fn but for weight gradient  # layers.1"));
}

TEST(Fp8Layers, FeaturesThatDoNotFitAreLeftOutWithAWarning) {
  const auto resolved = Resolve(PresetNamed("fp8"), Mlp({128, 120, 128, 10}));
  EXPECT_THAT(LayersOf(resolved), IsEmpty());
  EXPECT_THAT(resolved->warnings, ElementsAre(HasSubstr("120 x 128 features of layers.1"), HasSubstr("layers.2"),
                                              HasSubstr("no linear layer computes in FP8")));
  EXPECT_THAT(LayersOf(Resolve(PresetNamed("fp8-block"), Mlp({128, 144, 144, 10}))), IsEmpty()) << "16 x 9 is no block";
}

// The limits are those of torchao's filters, which were tuned on an H100. With one scale per tensor, FP8 makes a layer
// faster than bf16 if it has more than 1024 outputs or more than 4096 inputs. With finer scales, a layer must be
// larger.
TEST(Fp8Layers, SmallOnesAreWarnedOfWhereFp8IsNative) {
  const auto warnings = [](const char* preset, const std::vector<int64_t>& widths, const v1::Device& device) {
    return Resolve(PresetNamed(preset), Mlp(widths), device)->warnings;
  };
  EXPECT_THAT(warnings("fp8", {4096, 1024, 10}, Gpu(9, 0)),
              ElementsAre(HasSubstr("slower than bf16 in 1 of 1 layers, too small for their products to win back the "
                                    "casts: layers.1 with its 1024 x 4096 features; ")));
  EXPECT_THAT(warnings("fp8", {4096, 1040, 10}, Gpu(9, 0)), IsEmpty());
  EXPECT_THAT(warnings("fp8-delayed", {4112, 1024, 10}, Gpu(9, 0)), IsEmpty());
  EXPECT_THAT(warnings("fp8", {128, 128, 128, 2048, 10}, Gpu(9, 0)),
              ElementsAre(HasSubstr("2 of 3 layers, too small for their products to win back the casts: layers.1 with "
                                    "its 128 x 128 features and others")));
  EXPECT_THAT(warnings("fp8-block", {4096, 2048, 10}, Gpu(9, 0)), ElementsAre(HasSubstr("1 of 1 layers")));
  EXPECT_THAT(warnings("fp8-block", {2048, 4096, 10}, Gpu(9, 0)), ElementsAre(HasSubstr("1 of 1 layers")));
  EXPECT_THAT(warnings("fp8-block", {2176, 2176, 10}, Gpu(9, 0)), IsEmpty());
}

TEST(Slowness, EmulatedFormatsAreWarnedOfWithWhatIsFaster) {
  const auto warnings = [](const char* preset, const v1::Device& device) {
    return Resolve(PresetNamed(preset), Mlp({128, 128, 10}), device)->warnings;
  };
  EXPECT_THAT(
      warnings("fp16", Cpu(true)),
      ElementsAre("float16 is emulated on cpu: its numerics are true, but it saves no time there; for speed use "
                  "bf16"));
  EXPECT_THAT(warnings("fp16", Cpu(false)), ElementsAre(HasSubstr("use fp32")));
  EXPECT_THAT(warnings("bf16", Cpu(false)), ElementsAre(HasSubstr("bfloat16 is emulated on cpu")));
  EXPECT_THAT(warnings("bf16", Cpu(true)), IsEmpty());
  EXPECT_THAT(warnings("fp8", Cpu(true)), ElementsAre(HasSubstr("float8_e4m3fn is emulated on cpu")));
  EXPECT_THAT(warnings("fp8-block", Gpu(8, 9)),
              ElementsAre("block-scaled float8_e4m3fn is emulated on gpu0: its numerics are true, but it saves no "
                          "time there; for speed use preset fp8"));
}

TEST(Fp8Layers, FeaturesThatDoNotFitAreRefusedWhereARuleAsksForThem) {
  const auto status =
      Resolve(WithRule(PresetNamed("bf16"), "layers.1", PrecisionPolicy::fp8_e4m3), Mlp({128, 120, 10})).status();
  EXPECT_THAT(ViolationsOf(status), ElementsAre(Field(&FieldViolation::field, "precision.module_rules")));
}

TEST(Fp8Layers, Fp16ProductsHaveNoFp8BesideThem) {
  PrecisionPolicy policy = PresetNamed("fp8");
  policy.set_compute(PrecisionPolicy::fp16);
  EXPECT_THAT(LayersOf(Resolve(policy, Mlp({128, 128, 10}))), IsEmpty());
}

TEST(Fp8Recipe, FieldsGoOverThePresetThatScalesTheSameWay) {
  PrecisionPolicy policy = PresetNamed("fp8");
  policy.mutable_fp8()->set_scaling(v1::Fp8Recipe::DELAYED);
  policy.mutable_fp8()->set_amax_history_length(16);
  policy.mutable_fp8()->set_margin(1);
  policy.mutable_fp8()->set_canary_every_steps(0);
  const auto recipe = ResolveFp8Recipe(policy, *FindPreset("fp8"));
  ASSERT_TRUE(recipe.has_value());
  Fp8Recipe expected = *FindPreset("fp8-delayed")->fp8;
  expected.amax_history_length = 16;
  expected.margin = 1;
  expected.canary_every_steps = 0;
  EXPECT_EQ(*recipe, expected);
  EXPECT_FALSE(recipe->power_of_two_scales);
  policy.mutable_fp8()->set_power_of_two_scales(true);
  EXPECT_TRUE(ResolveFp8Recipe(policy, *FindPreset("fp8"))->power_of_two_scales);
}

TEST(Fp8Recipe, EveryFieldHasItsLimits) {
  PrecisionPolicy policy = PresetNamed("fp8");
  v1::Fp8Recipe& fp8 = *policy.mutable_fp8();
  fp8.set_amax_history_length(0);
  fp8.set_margin(-1);
  fp8.set_amax_epsilon(0);
  fp8.set_canary_every_steps(-1);
  fp8.set_canary_bound(0);
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match("*");
  rule.set_compute(PrecisionPolicy::fp8_e5m2);
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ValidatePolicy(policy)) {
    fields.push_back(violation.field);
  }
  const std::string path = "precision.fp8.";
  EXPECT_THAT(fields, ::testing::UnorderedElementsAre(path + "amax_history_length", path + "margin",
                                                      path + "amax_epsilon", path + "canary_every_steps",
                                                      path + "canary_bound", "precision.module_rules[0].compute"));
}

TEST(Fp8Capability, NeedsAGpuOf89OrIsEmulated) {
  EXPECT_EQ(FindCapabilityGap(PresetNamed("fp8"), Gpu(8, 6))->needed, 89);
  EXPECT_FALSE(FindCapabilityGap(PresetNamed("fp8"), Gpu(8, 9)).has_value());
  EXPECT_EQ(FindCapabilityGap(WithRule(PresetNamed("bf16"), "x", PrecisionPolicy::fp8_e4m3), Gpu(8, 0))->needed, 89);
  EXPECT_FALSE(FindCapabilityGap(PresetNamed("fp8"), Cpu()).has_value());
  EXPECT_TRUE(IsEmulated(PresetNamed("fp8"), Cpu()));
  EXPECT_FALSE(IsEmulated(PresetNamed("fp8"), Gpu(9, 0)));
}

// cuBLASLt supports products with one fp32 scale per block only on Hopper (capability 9), not on earlier or later GPUs.
TEST(Fp8Capability, BlocksAreNativeOnHopperAlone) {
  EXPECT_FALSE(IsEmulated(PresetNamed("fp8-block"), Gpu(9, 0)));
  EXPECT_TRUE(IsEmulated(PresetNamed("fp8-block"), Gpu(8, 9)));
  EXPECT_TRUE(IsEmulated(PresetNamed("fp8-block"), Gpu(10, 0)));
  EXPECT_TRUE(IsEmulated(PresetNamed("fp8-block"), Cpu()));
}

TEST(Fp8Table, TellsTheRecipeAndTheLayers) {
  const auto resolved = Resolve(PresetNamed("fp8"), Mlp({128, 128, 10}), Cpu());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const v1::PolicyTable table = ToMessage(*resolved);
  EXPECT_EQ(table.policy().fp8().scaling(), v1::Fp8Recipe::CURRENT);
  EXPECT_TRUE(table.emulated());
  std::vector<std::string> dtypes;
  for (const auto& op : table.ops()) {
    if (op.op() == "aten.linear.default") {
      dtypes.push_back(op.dtype());
    }
  }
  EXPECT_THAT(dtypes, ElementsAre("bfloat16", "float8_e4m3fn", "bfloat16"));
}

// FP8 weights are made from the upper halves of the fp32 masters and are not stored. So a parameter takes four bytes;
// bf16 with fp32 masters takes six. The layers save their inputs in FP8.
TEST(Fp8Memory, WeightsAreStoredOnceAndInputsKeptInOneByte) {
  const graph::Graph model =
      models::BuildGpt({.num_layers = 4, .width = 128, .num_heads = 4, .vocabulary = 64, .sequence_length = 16})
          .value();
  const auto estimate = [&](const char* preset) {
    const TrainedPrograms programs = TrainedPrograms::Of(model, /*evaluates=*/false).value();
    const auto policy = Resolve(PresetNamed(preset), programs.train);
    return MemoryModel::Create(programs, *policy, {.num_moments = 2}).value().At(32);
  };
  const MemoryEstimate bf16 = estimate("bf16");
  const MemoryEstimate fp8 = estimate("fp8");
  EXPECT_EQ(fp8.working_copies, bf16.working_copies) << "the layers' upper halves";
  EXPECT_EQ(bf16.weights - fp8.weights, fp8.working_copies) << "a remainder of two bytes instead of a master of four";
  // Two of the four blocks compute in FP8. Their layers' inputs take one byte less per element: 128 features for c_attn
  // and for c_fc, 128 and 512 for the two c_proj. But the norm before c_attn also saves the residual stream that it
  // reads.
  const int64_t rows = int64_t{32} * 16;
  EXPECT_LT(fp8.activations, bf16.activations);
  EXPECT_GE(bf16.activations - fp8.activations, 2 * rows * (128 + 128));
}

}  // namespace
}  // namespace ampd::precision
