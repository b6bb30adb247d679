// Tests of norms whose input has another dtype than their weights. LibTorch's CUDA kernels of layer_norm and group_norm
// need the same dtype for both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "graph/norm_amaxes.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "precision/fused_norms.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "precision/preset.h"
#include "tests/golden_file.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Graph Gpt2(int num_layers = 2) {
  v1::Gpt2Spec spec;
  spec.set_n_layer(num_layers);
  spec.set_n_embd(64);
  spec.set_n_head(2);
  spec.set_vocab_size(128);
  spec.set_n_positions(16);
  return graph::WithLossHead(models::BuildGpt2(spec, 0).value()).value();
}

Graph Bert(int num_layers = 2) {
  v1::BertClassifierSpec spec;
  spec.set_num_hidden_layers(num_layers);
  spec.set_hidden_size(64);
  spec.set_num_attention_heads(2);
  spec.set_intermediate_size(128);
  spec.set_vocab_size(128);
  spec.set_max_position_embeddings(16);
  spec.set_num_labels(2);
  return graph::WithLossHead(models::BuildBertClassifier(spec, 0).value()).value();
}

// Adds a group norm to the graph. GraphBuilder has none, because only imported models use it.
ValueId GroupNorm(Graph& graph, ValueId x) {
  const ValueId weight = graph.AddParameter("groups.weight", {Dtype::kFloat32, {32}}, graph::Initializer::Constant(1));
  const ValueId bias = graph.AddParameter("groups.bias", {Dtype::kFloat32, {32}}, graph::Initializer::Constant(0));
  return graph.AddNode({.op = "aten.group_norm.default",
                        .arguments = {{"input", x}, {"num_groups", int64_t{4}}, {"weight", weight}, {"bias", bias}},
                        .outputs = {},
                        .module_path = "groups"},
                       "groups", graph.type(x));
}

// A model like ConvNeXt: a residual block of a depthwise convolution, a layer norm and an MLP, followed by a batch
// norm.
Graph ConvNext() {
  graph::GraphBuilder b("convnext");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 3, 8, 8}});
  x = b.Conv2d("stem", x, {.out_channels = 32, .kernel_size = 2, .stride = 2});
  ValueId branch = b.Conv2d("dwconv", x, {.out_channels = 32, .kernel_size = 3, .padding = 1, .groups = 32});
  branch = b.LayerNorm("norm", b.Transpose("to_last", branch, 1, 3));
  branch = b.Linear("pwconv2", b.Gelu("act", b.Linear("pwconv1", branch, 64)), 32);
  x = b.BatchNorm2d("bn", b.Add("residual", b.Transpose("to_first", branch, 1, 3), x));
  b.Output("logits", b.Linear("head", b.Flatten("flat", x), 10));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

Graph ConvolutionAndGroupNorm() {
  graph::GraphBuilder b("groups");
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 3, 8, 8}});
  const ValueId x = b.Conv2d("conv", images, {.out_channels = 32, .kernel_size = 3, .padding = 1});
  b.Output("features", x);
  Graph graph = std::move(b).Build().value();
  graph.SetOutputs({{"features", GroupNorm(graph, x)}});
  return graph;
}

absl::StatusOr<Graph> Converted(const Graph& model, const std::string& preset, const v1::Device& device) {
  const auto policy = ResolvePolicy(PresetNamed(preset), model, device, OptimizerKind::kAdam);
  return policy.ok() ? ApplyPrecision(model, *policy) : policy.status();
}

int Count(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; }));
}

// Returns the weights and biases of layer norms and group norms whose dtype differs from that of the norm's input.
std::vector<std::string> NormsOfTwoDtypes(const Graph& graph) {
  std::vector<std::string> mixed;
  for (const Node& node : graph.nodes()) {
    if (node.op != "aten.layer_norm.default" && node.op != "aten.group_norm.default") {
      continue;
    }
    for (const char* name : {"weight", "bias"}) {
      if (const auto value = node.ValueOf(name);
          value.has_value() && graph.type(*value).dtype != graph.type(*node.ValueOf("input")).dtype) {
        mixed.push_back(absl::StrCat(node.module_path, ".", name));
      }
    }
  }
  return mixed;
}

TEST(Norms, OnAGpu_ReadWeightsOfTheirInputsDtypeInEveryPreset) {
  for (const Preset& preset : AllPresets()) {
    for (const Graph& model : {Gpt2(), Bert(), ConvNext(), ConvolutionAndGroupNorm()}) {
      const auto converted = Converted(model, std::string(preset.name), Gpu(9, 0));
      ASSERT_TRUE(converted.ok()) << preset.name << " " << model.name() << ": " << converted.status();
      EXPECT_THAT(NormsOfTwoDtypes(*converted), IsEmpty()) << preset.name << " " << model.name();
      EXPECT_EQ(Count(*converted, "aten.layer_norm.default"), 0) << preset.name << " " << model.name();
    }
  }
}

TEST(Norms, OnACpu_ReadFp32WeightsBesideNarrowInputs) {
  for (const char* preset : {"keras-mixed-bfloat16", "bf16"}) {
    EXPECT_THAT(NormsOfTwoDtypes(*Converted(ConvNext(), preset, Cpu())), Not(IsEmpty())) << preset;
    EXPECT_THAT(NormsOfTwoDtypes(*Converted(ConvolutionAndGroupNorm(), preset, Cpu())), Not(IsEmpty())) << preset;
  }
}

TEST(Norms, OnAGpu_GroupNormsComputeTheRoundedInputInFp32AndReturnItsDtype) {
  const std::string text = graph::ToText(*Converted(ConvolutionAndGroupNorm(), "bf16", Gpu(9, 0)));
  EXPECT_THAT(text, HasSubstr("%groups_wide: float32[B, 32, 8, 8] = "
                              "aten.group_norm.default(input=%conv2d_float32, "));
  EXPECT_THAT(text, HasSubstr("bfloat16[B, 32, 8, 8] = "
                              "aten.to.dtype(self=%groups_wide, dtype=bfloat16)  # groups"));
}

TEST(Norms, OnAGpu_LayerNormsReadAndReturnTheirInputsDtypeWithoutCasts) {
  const std::string text = graph::ToText(*Converted(ConvNext(), "bf16", Gpu(9, 0)));
  EXPECT_THAT(text, HasSubstr("%layer_norm: bfloat16[B, 4, 4, 32] = ampd.layer_norm(input=%transpose, "
                              "normalized_shape=[32], weight=%norm.weight, bias=%norm.bias, eps=1e-05, "
                              "dtype=bfloat16)  # norm"));
  EXPECT_THAT(text, HasSubstr("%batch_norm: bfloat16[B, 32, 4, 4] = aten.batch_norm.default(input=%add, "));
}

std::string WithoutParameters(const std::string& text) {
  std::string kept;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    if (!line.empty() && !line.starts_with("parameter")) {
      absl::StrAppend(&kept, line, "\n");
    }
  }
  return kept;
}

TEST(Norms, OnAGpu_GraphsAreTheGoldenOnes) {
  for (const char* preset : {"bf16", "torch-amp-fp16", "keras-mixed-bfloat16"}) {
    const Graph graph = *Converted(Gpt2(), preset, Gpu(9, 0));
    EXPECT_TRUE(graph.Check().ok()) << preset << graph.Check();
    ExpectGolden(absl::StrCat("tests/precision/golden/gpt2-norms-", preset, ".txt"),
                 WithoutParameters(graph::ToText(graph)));
  }
}

// Only the layers of the middle block are in FP8. Two of them read the result of a norm.
TEST(Norms, OnAGpu_FindTheAmaxesOfTheFp8LayersThatReadThem) {
  const Graph graph = *Converted(Gpt2(3), "fp8", Gpu(9, 0));
  EXPECT_TRUE(graph.Check().ok()) << graph.Check();
  std::string nodes;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(graph::ToText(graph), '\n'))) {
    if (line.find("layer_norm") != std::string::npos || line.find("linear_fp8") != std::string::npos) {
      absl::StrAppend(&nodes, line, "\n");
    }
  }
  ExpectGolden("tests/precision/golden/gpt2-norms-fp8.txt", nodes);
}

// Returns the number of norms that find an amax, and the number of FP8 layers that read one.
std::pair<int, int> NumAmaxes(const Graph& graph) {
  std::pair<int, int> num = {0, 0};
  for (const Node& node : graph.nodes()) {
    num.first += graph::AmaxFoundBy(node).has_value() ? 1 : 0;
    num.second += node.ValueOf("input_amax").has_value() ? 1 : 0;
  }
  return num;
}

TEST(Norms, FindAmaxesOnlyOnAGpuForFp8WithOneScalePerTensor) {
  using Num = std::pair<int, int>;
  for (const auto& [preset, num] :
       {std::pair<const char*, Num>("fp8", {2, 2}), {"fp8-delayed", {2, 2}}, {"fp8-block", {0, 0}}, {"bf16", {0, 0}}}) {
    EXPECT_EQ(NumAmaxes(*Converted(Gpt2(3), preset, Gpu(9, 0))), num) << preset;
    EXPECT_EQ(NumAmaxes(*Converted(Gpt2(3), preset, Cpu())), Num(0, 0)) << preset;
  }
  EXPECT_EQ(NumAmaxes(*Converted(Bert(3), "fp8", Gpu(9, 0))), Num(0, 0))
      << "an addition reads the fp32 results of the norms, and the FP8 layers read casts of them";
}

TEST(Norms, FindNoAmaxesForLayersThatDoNotQuantizeTheirInput) {
  v1::PrecisionPolicy policy = PresetNamed("fp8");
  v1::ModuleRule& rule = *policy.add_module_rules();
  rule.set_match("*.c_fc");
  rule.set_exclude_weight_gradient(true);
  const Graph model = Gpt2(3);
  const auto num_with = [&] {
    return NumAmaxes(*ApplyPrecision(model, *ResolvePolicy(policy, model, Gpu(9, 0), OptimizerKind::kAdam)));
  };
  EXPECT_EQ(num_with(), std::pair(2, 2)) << "the forward product quantizes the input";
  rule.set_exclude_forward(true);
  EXPECT_EQ(num_with(), std::pair(1, 1));
}

// The network is a norm, a view of its result, and two FP8 layers that read the view.
TEST(WithNormAmaxes, LayersThatReadTheWholeResultShareItsAmax) {
  for (const auto& [start, num] : {std::pair(int64_t{0}, std::pair(1, 2)), {1, {0, 0}}}) {
    const graph::TensorType bf16 = {Dtype::kBFloat16, {Dim::Batch(), 8, 16}};
    Graph graph("views");
    const auto add = [&](std::string op, std::vector<graph::Argument> arguments, graph::Shape shape) {
      const std::string name = op;
      return graph.AddNode({.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}},
                           name, {Dtype::kBFloat16, std::move(shape)});
    };
    ValueId x = add("ampd.layer_norm", {{"input", graph.AddInput("x", bf16)}}, bf16.shape);
    x = add("aten.slice.Tensor", {{"self", x}, {"dim", int64_t{1}}, {"start", start}}, {Dim::Batch(), 8 - start, 16});
    x = add("aten.view.default", {{"self", x}}, {Dim::Batch(8 - start), 16});
    const ValueId weight = graph.AddInput("weight", {Dtype::kBFloat16, {16, 16}});
    for (const char* const layer : {"first", "second"}) {
      graph.AddOutput(layer, add("ampd.linear_fp8", {{"input", x}, {"weight", weight}, {"forward", true}},
                                 {Dim::Batch(8 - start), 16}));
    }
    EXPECT_EQ(NumAmaxes(graph::WithNormAmaxes(graph)), num) << start;
  }
}

// The values of a graph that casts the bf16 activation `branch` to fp32 (`wide`), adds x, normalizes the sum and casts
// the result to bf16 (`narrow`).
struct Residual {
  ValueId x, branch, wide, sum, norm, narrow;
};
// Returns this graph with its norm fused. `change` adds nodes before the norm.
Graph FusedResidual(const std::function<void(Graph&, const Residual&)>& change) {
  const graph::TensorType fp32 = {Dtype::kFloat32, {Dim::Batch(), 8}};
  const graph::TensorType bf16 = {Dtype::kBFloat16, {Dim::Batch(), 8}};
  const auto op = [](std::string name, std::vector<graph::Argument> arguments) {
    return Node{.op = std::move(name), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
  };
  Graph graph("residual");
  Residual r;
  r.x = graph.AddInput("x", fp32);
  r.branch = graph.AddNode(op("aten.relu.default", {{"self", graph.AddInput("branch", bf16)}}), "relu", bf16);
  r.wide = graph.AddNode(op("aten.to.dtype", {{"self", r.branch}, {"dtype", Dtype::kFloat32}}), "wide", fp32);
  r.sum = graph.AddNode(op("aten.add.Tensor", {{"self", r.x}, {"other", r.wide}}), "sum", fp32);
  r.norm = graph.AddValue("norm", fp32);
  r.narrow = graph.AddValue("narrow", bf16);
  const auto finish = [&] {
    Node norm = op("aten.layer_norm.default", {{"input", r.sum}, {"normalized_shape", std::vector<int64_t>{8}}});
    norm.outputs = {r.norm};
    graph.AddNode(std::move(norm));
    Node cast = op("aten.to.dtype", {{"self", r.norm}, {"dtype", Dtype::kBFloat16}});
    cast.outputs = {r.narrow};
    graph.AddNode(std::move(cast));
    graph.AddOutput("narrow", r.narrow);
  };
  change(graph, r);
  finish();
  graph.AddOutput("sum", r.sum);
  Graph fused = WithFusedNorms(graph);
  EXPECT_TRUE(fused.Check().ok()) << fused.Check();
  return fused;
}

TEST(WithFusedNorms, ANormTakesTheSumBeforeItAndTheCastsAround) {
  const Graph graph = FusedResidual([](Graph&, const Residual&) {});
  EXPECT_EQ(graph.nodes().size(), 2);
  EXPECT_THAT(graph::ToText(graph),
              HasSubstr("%sum: float32[B, 8], %narrow: bfloat16[B, 8] = ampd.add_layer_norm(self=%x, other=%relu, "
                        "normalized_shape=[8], weight=None, bias=None, eps=1e-05, sum_dtype=float32, "
                        "dtype=bfloat16)"));
}

TEST(WithFusedNorms, ACastThatSomethingElseReadsStays) {
  const Graph graph = FusedResidual([](Graph& g, const Residual& r) { g.AddOutput("wide", r.wide); });
  EXPECT_EQ(Count(graph, "aten.to.dtype"), 1);
  EXPECT_THAT(graph::ToText(graph), HasSubstr("ampd.add_layer_norm(self=%x, other=%wide, "));
  const Graph read_norm = FusedResidual([](Graph& g, const Residual& r) { g.AddOutput("norm", r.norm); });
  EXPECT_THAT(graph::ToText(read_norm), HasSubstr("%norm: float32[B, 8] = ampd.add_layer_norm("));
  EXPECT_EQ(Count(read_norm, "aten.to.dtype"), 1);
}

TEST(WithFusedNorms, ASumThatIsReadBeforeTheNormIsAddedThere) {
  const Graph graph = FusedResidual([](Graph& g, const Residual& r) {
    const ValueId early =
        g.AddNode({.op = "aten.relu.default", .arguments = {{"self", r.sum}}, .outputs = {}, .module_path = {}},
                  "early", g.type(r.sum));
    g.AddOutput("early", early);
  });
  EXPECT_EQ(Count(graph, "aten.add.Tensor"), 1);
  EXPECT_EQ(Count(graph, "ampd.layer_norm"), 1);
}

TEST(WithFusedNorms, OnlyAPlainSumOfTwoWholeTensorsIsTaken) {
  for (const auto& [alpha, adds] : {std::pair<graph::Operand, int>(int64_t{2}, 1), {0.5, 1}, {1.0, 0}}) {
    graph::GraphBuilder b("scaled");
    const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 8}});
    b.Output("norm", b.LayerNorm("norm", b.Add("add", b.Relu("relu", x), x)));
    Graph graph = std::move(b).Build().value();
    std::vector<Node> nodes = graph.nodes();
    nodes[1].Set("alpha", alpha);
    graph.SetNodes(std::move(nodes));
    EXPECT_EQ(Count(WithFusedNorms(graph), "aten.add.Tensor"), adds);
  }
  graph::GraphBuilder b("rows");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 4, 8}});
  const ValueId row = b.Input("row", {Dtype::kFloat32, {8}});
  b.Output("norm", b.LayerNorm("norm", b.Add("add", x, row)));
  EXPECT_EQ(Count(WithFusedNorms(std::move(b).Build().value()), "aten.add.Tensor"), 1);
}

}  // namespace
}  // namespace ampd::precision
