// Tests how the precision pass treats two kinds of values: those that the model requires in fp32, and those whose dtype
// follows that of other values (Node::follows_dtype).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "precision/cost/memory.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "tests/golden_file.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Initializer;
using graph::Node;
using graph::ValueId;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Builds a graph like those that an import produces, of linear layers and ops between them. All values are (B, 64).
class Network {
 public:
  Network() : graph_("followed") { x_ = graph_.AddInput("images", Wide()); }

  static graph::TensorType Wide() { return {Dtype::kFloat32, {Dim::Batch(), 64}}; }

  ValueId x() const { return x_; }
  ValueId Parameter(const std::string& name, graph::Shape shape) {
    return graph_.AddParameter(name, {Dtype::kFloat32, std::move(shape)}, Initializer::Uniform(1));
  }
  ValueId Linear(const std::string& path, ValueId input, int64_t out = 64) {
    const ValueId weight = Parameter(path + ".weight", {out, 64});
    return graph_.AddNode({.op = "aten.linear.default",
                           .arguments = {{"input", input}, {"weight", weight}},
                           .outputs = {},
                           .module_path = path},
                          path, {Dtype::kFloat32, {Dim::Batch(), out}});
  }
  ValueId Call(const std::string& op, std::vector<graph::Argument> arguments, const std::string& name) {
    return graph_.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = ""}, name,
                          Wide());
  }
  ValueId Multiply(ValueId a, ValueId b, const std::string& name) {
    return Call("aten.mul.Tensor", {{"self", a}, {"other", b}}, name);
  }
  ValueId Add(ValueId a, ValueId b, const std::string& name) {
    return Call("aten.add.Tensor", {{"self", a}, {"other", b}}, name);
  }
  ValueId Mask(ValueId of) {
    return graph_.AddNode(
        {.op = "aten.lt.Scalar", .arguments = {{"self", of}, {"other", 0.0}}, .outputs = {}, .module_path = ""}, "mask",
        {Dtype::kBool, Wide().shape});
  }
  ValueId Meant(ValueId input, const std::string& name) { return Cast(input, name, /*is_meant=*/true); }
  ValueId Following(ValueId input, const std::string& name) { return Cast(input, name, /*is_meant=*/false); }
  // Adds noise (B, 1), as torchvision's stochastic depth draws it. If `follows`, its dtype follows that of the values
  // around it; otherwise it must be fp32.
  ValueId Noise(bool follows) {
    Node empty{.op = "aten.empty.memory_format",
               .arguments = {{"size", graph::Shape{Dim::Batch(), 1}}, {"dtype", Dtype::kFloat32}},
               .outputs = {},
               .module_path = "depth",
               .keeps_fp32 = !follows,
               .follows_dtype = follows};
    const graph::TensorType type = {Dtype::kFloat32, {Dim::Batch(), 1}};
    const ValueId made = graph_.AddNode(std::move(empty), "empty", type);
    const ValueId drawn = graph_.AddNode(
        {.op = "aten.bernoulli.p", .arguments = {{"self", made}, {"p", 0.5}}, .outputs = {}, .module_path = "depth"},
        "bernoulli", type);
    return graph_.AddNode({.op = "aten.div.Tensor",
                           .arguments = {{"self", drawn}, {"other", 0.5}},
                           .outputs = {},
                           .module_path = "depth"},
                          "noise", type);
  }
  // Adds an RMS norm: weight * (x32 * rsqrt(mean(x32 ** 2))).to(x.dtype), where x32 = x.float().
  ValueId Norm(ValueId x) {
    const ValueId x32 = Meant(x, "x32");
    const ValueId squares = Call("aten.pow.Tensor_Scalar", {{"self", x32}, {"exponent", int64_t{2}}}, "squares");
    const graph::TensorType row = {Dtype::kFloat32, {Dim::Batch(), 1}};
    const ValueId mean =
        graph_.AddNode({.op = "aten.mean.dim",
                        .arguments = {{"self", squares}, {"dim", std::vector<int64_t>{-1}}, {"keepdim", true}},
                        .outputs = {},
                        .module_path = "norm"},
                       "mean", row);
    const ValueId rsqrt = graph_.AddNode(
        {.op = "aten.rsqrt.default", .arguments = {{"self", mean}}, .outputs = {}, .module_path = "norm"}, "rsqrt",
        row);
    const ValueId scaled = Multiply(x32, rsqrt, "scaled");
    return Multiply(Parameter("norm.weight", {64}), Following(scaled, "back"), "norm");
  }
  Graph Build(ValueId result) && {
    graph_.AddOutput("logits", Linear("head", result, 10));
    return graph::WithLossHead(graph_).value();
  }

 private:
  ValueId Cast(ValueId input, const std::string& name, bool is_meant) {
    return graph_.AddNode({.op = "aten.to.dtype",
                           .arguments = {{"self", input}, {"dtype", Dtype::kFloat32}},
                           .outputs = {},
                           .module_path = "norm",
                           .keeps_fp32 = is_meant,
                           .follows_dtype = !is_meant},
                          name, graph_.type(input).shape.empty() ? graph_.type(input) : Wide());
  }

  Graph graph_;
  ValueId x_;
};

// A graph of a linear layer, a multiplication of its result by noise, a norm and another linear layer.
Graph NormAndNoise(bool noise_follows = true) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId kept = network.Multiply(x, network.Noise(noise_follows), "kept");
  const ValueId norm = network.Norm(kept);
  return std::move(network).Build(norm);
}

Graph GraphUnder(const char* preset, const Graph& graph) {
  const auto policy = ResolvePolicy(PresetNamed(preset), graph, Gpu(9, 0), OptimizerKind::kAdam);
  EXPECT_TRUE(policy.ok()) << policy.status();
  const auto applied = ApplyPrecision(graph, *policy);
  EXPECT_TRUE(applied.ok()) << applied.status();
  EXPECT_TRUE(applied->Check().ok()) << applied->Check();
  return *applied;
}

std::string Applied(const Graph& graph, const char* preset) { return graph::ToText(GraphUnder(preset, graph)); }

TEST(FollowedDtypes, GraphsOfANormAndNoiseAreTheGoldenOnes) {
  for (const char* preset : {"bf16", "fp16", "torch-amp-bf16", "megatron-bf16", "apex-o3"}) {
    ExpectGolden(std::string("tests/precision/golden/followed-graph-") + preset + ".txt",
                 Applied(NormAndNoise(), preset));
  }
}

TEST(FollowedDtypes, Fp32LeavesTheGraphAsItIs) {
  EXPECT_EQ(Applied(NormAndNoise(), "fp32"), graph::ToText(NormAndNoise()));
}

TEST(FollowedDtypes, NoiseThatFollowsDoesNotWidenWhatItMeets) {
  EXPECT_THAT(Applied(NormAndNoise(), "bf16"), HasSubstr("%kept: bfloat16[B, 64]"));
  EXPECT_THAT(Applied(NormAndNoise(/*noise_follows=*/false), "bf16"), HasSubstr("%kept: float32[B, 64]"));
}

TEST(FollowedDtypes, NoiseThatFollowsTakesMemoryOfWhatItMeets) {
  const auto activations = [](bool follows) {
    const Graph graph = NormAndNoise(follows);
    const auto policy = ResolvePolicy(PresetNamed("megatron-bf16"), graph, Gpu(9, 0), OptimizerKind::kAdam).value();
    return MemoryModel::Create({.train = graph, .losses = {}, .evaluation = {}}, policy, {})->At(1024).activations;
  };
  EXPECT_LT(activations(true), activations(false));
}

TEST(FollowedDtypes, NoiseThatFollowsMeetsFp32AsItIs) {
  Network network;
  const ValueId kept = network.Multiply(network.x(), network.Noise(true), "kept");
  const std::string text = Applied(std::move(network).Build(kept), "bf16");
  EXPECT_THAT(text, HasSubstr("%kept: float32[B, 64] = aten.mul.Tensor(self=%images, other=%noise)\n"));
}

TEST(FollowedDtypes, ANormGoesBackToTheDtypeThatCame) {
  EXPECT_THAT(Applied(NormAndNoise(), "megatron-bf16"),
              HasSubstr("%back: bfloat16[B, 64] = aten.to.dtype(self=%scaled, dtype=bfloat16)  # norm (follows)\n"));
  Network network;
  const ValueId norm = network.Norm(network.x());
  EXPECT_THAT(Applied(std::move(network).Build(norm), "bf16"), HasSubstr("%back: float32[B, 64]")) << "fp32 came";
}

TEST(FollowedDtypes, AScaleInFp32DoesNotHideWhatCame) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId scale = network.Meant(network.Parameter("norm.weight", {64}), "scale");
  const ValueId scaled = network.Multiply(scale, network.Meant(x, "x32"), "scaled");
  const ValueId back = network.Following(scaled, "back");
  const std::string text = Applied(std::move(network).Build(back), "bf16");
  EXPECT_THAT(text, HasSubstr("parameter %norm.weight: float32[64]"));
  EXPECT_THAT(text, HasSubstr("%scaled: float32[B, 64]"));
  EXPECT_THAT(text, HasSubstr("%back: bfloat16[B, 64]"));
}

TEST(FollowedDtypes, WhatIsMadeOfConstantsYieldsWhereItGoesBack) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId positions = network.Following(network.Noise(false), "positions");
  const ValueId sum = network.Add(x, positions, "sum");
  const std::string text = Applied(std::move(network).Build(sum), "bf16");
  EXPECT_THAT(text, HasSubstr("%positions: float32[B, 64] = aten.to.dtype"));
  EXPECT_THAT(text, HasSubstr("%sum: bfloat16[B, 64] = aten.add.Tensor(self=%stem, other=%positions_bfloat16)\n"));
}

// If an op combines a 0-dim fp32 value with a bf16 tensor, the result is in bf16. PyTorch does the same: its kernels
// multiply by the fp32 number before they round.
TEST(ApplyPrecision, AValueOfNoDimensionDoesNotWidenWhatItMeets) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId scale = network.Parameter("scale", {});
  const ValueId scaled = network.Call("aten.div.Tensor", {{"self", x}, {"other", scale}}, "scaled");
  const ValueId wide = network.Multiply(scale, network.x(), "wide");
  const ValueId sum = network.Add(scaled, wide, "sum");
  const std::string text = Applied(std::move(network).Build(sum), "torch-amp-bf16");
  EXPECT_THAT(text, HasSubstr("%scaled: bfloat16[B, 64] = aten.div.Tensor(self=%stem, other=%scale)\n"));
  EXPECT_THAT(text, HasSubstr("%wide: float32[B, 64] = aten.mul.Tensor(self=%scale, other=%images)\n"));
  EXPECT_THAT(text, HasSubstr("%sum: float32[B, 64]"));
}

TEST(FollowedDtypes, AValueOfNoDimensionThatFollowsIsRoundedToWhatItMeets) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId scale = network.Following(network.Parameter("scale", {}), "rounded");
  const ValueId scaled = network.Multiply(x, scale, "scaled");
  const std::string text = Applied(std::move(network).Build(scaled), "torch-amp-bf16");
  EXPECT_THAT(text, HasSubstr("%scaled: bfloat16[B, 64] = aten.mul.Tensor(self=%stem, other=%rounded_bfloat16)\n"));
}

TEST(ApplyPrecision, WhatIsWrittenInPlaceKeepsItsDtypeWhateverIsAddedToIt) {
  const auto text = [](const char* preset, const char* op) {
    Network network;
    const ValueId x = network.Linear("stem", network.x());
    const ValueId sum = network.Call(op, {{"self", x}, {"other", network.x()}}, "sum");
    return Applied(std::move(network).Build(sum), preset);
  };
  EXPECT_THAT(text("bf16", "aten.add.Tensor"), HasSubstr("%sum: float32[B, 64] = aten.add.Tensor(self=%stem_float32"));
  EXPECT_THAT(text("bf16", "aten.add_.Tensor"),
              HasSubstr("%sum_wide: float32[B, 64] = aten.add.Tensor(self=%stem_float32, other=%images)  # (in place)\n"
                        "%sum: bfloat16[B, 64] = aten.to.dtype(self=%sum_wide, dtype=bfloat16)\n"));
  EXPECT_THAT(text("fp32", "aten.add_.Tensor"), Not(HasSubstr("aten.to.dtype")));
}

// Builds a model in which two layers read the same fp32 sum and share one weight. Returns how many casts of the sum,
// and how many of the weight, the preset inserts.
std::pair<size_t, size_t> CastsOfWhatTwoRead(const char* preset) {
  Network network;
  const ValueId sum = network.Add(network.x(), network.x(), "sum");
  const ValueId weight = network.Parameter("tied.weight", {64, 64});
  const auto tied = [&](ValueId input, const char* name) {
    return network.Call("aten.linear.default", {{"input", input}, {"weight", weight}}, name);
  };
  const ValueId both = network.Add(tied(sum, "first"), tied(sum, "second"), "both");
  const std::vector<std::string> lines = absl::StrSplit(Applied(std::move(network).Build(both), preset), '\n');
  const auto casts_of = [&lines](std::string_view value) {
    return std::count_if(lines.begin(), lines.end(), [value](const std::string& line) {
      return absl::StrContains(line, absl::StrCat("aten.to.dtype(self=%", std::string(value), ","));
    });
  };
  return {casts_of("sum"), casts_of("tied.weight")};
}

// Each layer that reads the activation has its own cast, as in PyTorch and Apex. So the gradients of all casts are
// summed in the activation's format. With a shared cast they would be summed in the format of the cast.
TEST(ApplyPrecision, TorchAndApexCastAnActivationForEachOfItsReaders) {
  for (const char* preset : {"torch-amp-bf16", "torch-amp-fp16", "apex-o1"}) {
    EXPECT_EQ(CastsOfWhatTwoRead(preset), std::pair(size_t{2}, size_t{1})) << preset;
  }
  EXPECT_EQ(CastsOfWhatTwoRead("bf16"), std::pair(size_t{1}, size_t{0})) << "beside a master";
}

TEST(FollowedDtypes, AnOpThatNamesItsDtypeGivesItUnlessItFollows) {
  const auto text = [](bool keeps_fp32, bool follows) {
    Network network;
    const ValueId x = network.Linear("stem", network.x());
    const ValueId softmax =
        network.Call("aten.softmax.int", {{"self", x}, {"dim", int64_t{1}}, {"dtype", Dtype::kFloat32}}, "softmax");
    Graph graph = std::move(network).Build(softmax);
    std::vector<Node> nodes = graph.nodes();
    for (Node& node : nodes) {
      node.keeps_fp32 = keeps_fp32 && node.op == "aten.softmax.int";
      node.follows_dtype = follows && node.op == "aten.softmax.int";
    }
    graph.SetNodes(std::move(nodes));
    return Applied(graph, "apex-o3");
  };
  EXPECT_THAT(text(false, true),
              HasSubstr("%softmax: float16[B, 64] = aten.softmax.int(self=%stem, dim=1, dtype=float16)"));
  EXPECT_THAT(text(true, false),
              HasSubstr("%softmax: float32[B, 64] = aten.softmax.int(self=%stem_float32, dim=1, dtype=float32)"));
  EXPECT_THAT(text(false, false), HasSubstr("%softmax: float32[B, 64] = aten.softmax.int(self=%stem, dim=1"));
}

enum class Filled { kLayerResult, kConstant };

// Applies a preset to a model in which masked_fill writes `number` into a tensor. With kLayerResult, this tensor is the
// result of a layer. With kConstant, it is a constant whose dtype follows the dtypes of other values, and the model
// adds the result of masked_fill to the result of a layer. `follows`: whether the dtype of masked_fill's result follows
// the dtypes of other values too. Returns the dtype of masked_fill's result, and the number that masked_fill writes in
// the converted graph.
std::pair<Dtype, double> FillOf(const char* preset, double number, bool follows, Filled filled = Filled::kLayerResult) {
  Network network;
  const ValueId x = network.Linear("stem", network.x());
  const ValueId self = filled == Filled::kLayerResult ? x : network.Following(network.Noise(false), "zeros");
  const ValueId fill =
      network.Call("aten.masked_fill.Scalar", {{"self", self}, {"mask", network.Mask(x)}, {"value", number}}, "fill");
  const ValueId read = filled == Filled::kLayerResult ? fill : network.Add(x, fill, "sum");
  Graph graph = std::move(network).Build(read);
  std::vector<Node> nodes = graph.nodes();
  const auto is_fill = [](const Node& node) { return node.op == "aten.masked_fill.Scalar"; };
  std::find_if(nodes.begin(), nodes.end(), is_fill)->follows_dtype = follows;
  graph.SetNodes(std::move(nodes));
  const Graph applied = GraphUnder(preset, graph);
  const auto found = std::find_if(applied.nodes().begin(), applied.nodes().end(), is_fill);
  return {applied.type(found->outputs[0]).dtype, std::get<double>(*found->Find("value"))};
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<float>::max();
constexpr double kMostBFloat16 = 3.3895313892515355e38;

TEST(ApplyPrecision, AFillIsHeldWithinTheRangeOfTheDtypeThatItFills) {
  EXPECT_EQ(FillOf("fp32", -kMost, true), std::pair(Dtype::kFloat32, -kMost));
  EXPECT_EQ(FillOf("bf16", -kMost, true), std::pair(Dtype::kBFloat16, -kMostBFloat16));
  EXPECT_EQ(FillOf("bf16", kMost, true), std::pair(Dtype::kBFloat16, kMostBFloat16));
  EXPECT_EQ(FillOf("fp16", -kMost, true), std::pair(Dtype::kFloat16, -65504.0));
  EXPECT_EQ(FillOf("bf16", -kMost, false), std::pair(Dtype::kBFloat16, -kMostBFloat16)) << "an export without a twin";
  EXPECT_EQ(FillOf("fp16", -1e9, false), std::pair(Dtype::kFloat16, -65504.0));
  EXPECT_EQ(FillOf("bf16", -1e9, true), std::pair(Dtype::kBFloat16, -1e9)) << "within it";
  EXPECT_EQ(FillOf("bf16", -kInfinity, false), std::pair(Dtype::kBFloat16, -kInfinity));
}

// A fill writes a number into a tensor that is cast to a lower format afterwards. The number must be limited to the
// range of that format. Otherwise a row that a mask hides completely would become infinite in the cast, and its softmax
// NaN.
TEST(ApplyPrecision, AFillOfWhatYieldsIsHeldWithinTheRangeOfTheDtypeThatItIsCastTo) {
  for (const bool follows : {true, false}) {
    EXPECT_EQ(FillOf("bf16", -kMost, follows, Filled::kConstant), std::pair(Dtype::kFloat32, -kMostBFloat16));
    EXPECT_EQ(FillOf("fp16", -1e9, follows, Filled::kConstant), std::pair(Dtype::kFloat32, -65504.0));
    EXPECT_EQ(FillOf("fp32", -kMost, follows, Filled::kConstant), std::pair(Dtype::kFloat32, -kMost));
  }
}

TEST(ApplyPrecision, OpsThatMakeAConstantAreFillsToo) {
  const auto filled = [](const char* op, graph::Argument from) {
    Network network;
    const ValueId x = network.Linear("stem", network.x());
    if (std::holds_alternative<ValueId>(from.operand)) {
      from.operand = x;
    }
    const ValueId fill = network.Call(op, {std::move(from), {"fill_value", -kMost}}, "fill");
    const ValueId sum = network.Add(x, fill, "sum");
    Graph graph = std::move(network).Build(sum);
    std::vector<Node> nodes = graph.nodes();
    const auto made = std::find_if(nodes.begin(), nodes.end(), [op](const Node& node) { return node.op == op; });
    made->follows_dtype = true;
    graph.SetNodes(std::move(nodes));
    return Applied(graph, "bf16");
  };
  const std::string number = absl::StrCat("fill_value=", -kMostBFloat16);
  EXPECT_THAT(filled("aten.full.default", {"size", graph::Shape{Dim::Batch(), 64}}),
              AllOf(HasSubstr(number), HasSubstr("%fill: float32[B, 64]"), HasSubstr("%sum: bfloat16[B, 64]")));
  EXPECT_THAT(filled("aten.full_like.default", {"self", ValueId()}),
              AllOf(HasSubstr(number), HasSubstr("%fill: bfloat16[B, 64]"), HasSubstr("%sum: bfloat16[B, 64]")));
}

}  // namespace
}  // namespace ampd::precision
