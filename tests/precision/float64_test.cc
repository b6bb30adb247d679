// Tests that no policy casts what a model computes in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/print.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Initializer;
using graph::TensorType;
using graph::ValueId;
using testing::HasSubstr;
using testing::Not;

const TensorType kWide = {Dtype::kFloat64, {Dim::Batch(), 8}};
const TensorType kPlain = {Dtype::kFloat32, {Dim::Batch(), 8}};

// Builds a graph with the input "images" and a linear layer "fc" over it.
class Network {
 public:
  Network() : graph_("network") {
    images_ = graph_.AddInput("images", kPlain);
    const ValueId weight = graph_.AddParameter("fc.weight", {Dtype::kFloat32, {8, 8}}, Initializer::Uniform(1));
    layer_ = Call("aten.linear.default", {{"input", images_}, {"weight", weight}}, "layer", kPlain, "fc");
  }

  ValueId images() const { return images_; }
  ValueId layer() const { return layer_; }
  ValueId Input(const std::string& name, TensorType type) { return graph_.AddInput(name, std::move(type)); }
  ValueId Buffer(const std::string& name, graph::Shape shape) {
    return graph_.AddBuffer(name, {Dtype::kFloat64, std::move(shape)}, Initializer::Constant(0));
  }
  ValueId Call(const std::string& op, std::vector<graph::Argument> arguments, const std::string& name,
               const TensorType& type, const std::string& module_path = "") {
    return graph_.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = module_path},
                          name, type);
  }
  ValueId Cast(ValueId value, const std::string& name, const TensorType& type) {
    return Call("aten.to.dtype", {{"self", value}, {"dtype", type.dtype}}, name, type);
  }
  // Marks the last node.
  graph::Node& Last() {
    nodes_ = graph_.nodes();
    return nodes_.back();
  }
  void SetLast() { graph_.SetNodes(nodes_); }

  // Returns the graph with this output as text, converted by the policy of the preset.
  std::string Converted(ValueId output, const std::string& preset, const v1::Device& device = Cpu()) {
    Graph graph = graph_;
    graph.AddOutput("predictions", output);
    const auto policy = ResolvePolicy(PresetNamed(preset), graph, device, OptimizerKind());
    if (!policy.ok()) {
      return std::string(policy.status().message());
    }
    const auto converted = ApplyPrecision(graph, *policy);
    return converted.ok() ? ToText(*converted) : std::string(converted.status().message());
  }

 private:
  Graph graph_;
  ValueId images_;
  ValueId layer_;
  std::vector<graph::Node> nodes_;
};

class Float64 : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, Float64, testing::Values("fp32", "bf16", "fp16", "torch-amp-bf16", "apex-o3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// The model subtracts the mean from times, which have no room in fp32: t = ts.double(); (t - t.mean(1)).float().
TEST_P(Float64, AMeanAndADifferenceStayInIt) {
  Network network;
  const ValueId times = network.Cast(network.images(), "times", kWide);
  const ValueId mean =
      network.Call("aten.mean.dim", {{"self", times}, {"dim", std::vector<int64_t>{1}}, {"keepdim", true}}, "mean",
                   {Dtype::kFloat64, {Dim::Batch(), 1}});
  const ValueId rest = network.Call("aten.sub.Tensor", {{"self", times}, {"other", mean}}, "rest", kWide);
  const std::string text = network.Converted(network.Cast(rest, "features", kPlain), GetParam());
  EXPECT_THAT(text, HasSubstr("%times: float64[B, 8] = aten.to.dtype(self=%images, dtype=float64)"));
  EXPECT_THAT(text, HasSubstr("%mean: float64[B, 1] = aten.mean.dim(self=%times, dim=[1], keepdim=True)"));
  EXPECT_THAT(text, HasSubstr("%rest: float64[B, 8] = aten.sub.Tensor(self=%times, other=%mean)"));
  EXPECT_THAT(text, HasSubstr("%features: float32[B, 8] = aten.to.dtype(self=%rest, dtype=float32)"));
}

TEST_P(Float64, ABufferStaysInIt_AndSoDoesWhatIsAddedToIt) {
  Network network;
  const ValueId sums = network.Buffer("sums", {8});
  const ValueId added = network.Call("aten.add.Tensor", {{"self", sums}, {"other", network.layer()}}, "added", kWide);
  const std::string text = network.Converted(added, GetParam());
  EXPECT_THAT(text, HasSubstr("buffer %sums: float64[8]"));
  EXPECT_THAT(text, HasSubstr("%added: float64[B, 8] = aten.add.Tensor(self=%sums, other=%layer"));
}

TEST_P(Float64, AProductStaysInIt) {
  Network network;
  const ValueId x = network.Cast(network.images(), "x", kWide);
  const ValueId weight = network.Buffer("other.weight", {8, 8});
  const ValueId product =
      network.Call("aten.linear.default", {{"input", x}, {"weight", weight}}, "product", kWide, "other");
  for (const v1::Device& device : {Cpu(), Cpu(/*native_bf16=*/false)}) {
    EXPECT_THAT(network.Converted(product, GetParam(), device),
                HasSubstr("%product: float64[B, 8] = aten.linear.default(input=%x, weight=%other.weight)"));
  }
}

TEST_P(Float64, ANumberOfItChangesNoOtherDtype) {
  Network network;
  const ValueId scale = network.Buffer("scale", {});
  const ValueId scaled =
      network.Call("aten.mul.Tensor", {{"self", network.layer()}, {"other", scale}}, "scaled", kPlain);
  const std::string text = network.Converted(scaled, GetParam());
  EXPECT_THAT(text, HasSubstr("other=%scale)"));
  EXPECT_THAT(text, Not(HasSubstr("%scaled: float64")));
}

TEST_P(Float64, AWriteOfItIntoANarrowerTensorIsRoundedOnce) {
  Network network;
  const ValueId x = network.Cast(network.images(), "x", kWide);
  const ValueId written = network.Call("aten.add.Tensor", {{"self", network.layer()}, {"other", x}}, "written", kPlain);
  network.Last().is_written_in_place = true;
  network.SetLast();
  const std::string text = network.Converted(written, GetParam());
  EXPECT_THAT(text, HasSubstr("%written_wide: float64[B, 8] = aten.add.Tensor("));
  EXPECT_THAT(text, HasSubstr("= aten.to.dtype(self=%written_wide, dtype="));
}

TEST_P(Float64, ACastThatFollowsAnotherDtypeLeavesIt) {
  Network network;
  const ValueId x = network.Cast(network.images(), "x", kWide);
  const ValueId back = network.Cast(x, "back", kPlain);
  network.Last().follows_dtype = true;
  network.SetLast();
  EXPECT_THAT(network.Converted(back, GetParam()),
              HasSubstr("%back: float32[B, 8] = aten.to.dtype(self=%x, dtype=float32)"));
}

TEST_P(Float64, ALossOfProbabilitiesInItIsAllowed) {
  Network network;
  const ValueId x = network.Cast(network.images(), "x", kWide);
  const ValueId loss =
      network.Call("aten.binary_cross_entropy.default", {{"self", x}, {"target", x}}, "bce", {Dtype::kFloat64, {}});
  EXPECT_THAT(network.Converted(loss, GetParam()),
              HasSubstr("%bce: float64[] = aten.binary_cross_entropy.default(self=%x, target=%x)"));
}

// Returns the program of a cross entropy over many classes, whose logits are float64, as text for a GPU. If `rounds`,
// the model casts the logits to float32 for the loss.
std::string LossOverManyClasses(bool rounds) {
  Network network;
  const TensorType logits = {Dtype::kFloat64, {Dim::Batch(), kManyClasses}};
  const ValueId labels = network.Input("labels", {Dtype::kInt64, {Dim::Batch()}});
  const ValueId weight = network.Buffer("head.weight", {kManyClasses, 8});
  const ValueId x = network.Cast(network.images(), "x", kWide);
  ValueId scores = network.Call("aten.linear.default", {{"input", x}, {"weight", weight}}, "scores", logits, "head");
  if (rounds) {
    scores = network.Cast(scores, "rounded", {Dtype::kFloat32, logits.shape});
  }
  const TensorType loss = {rounds ? Dtype::kFloat32 : Dtype::kFloat64, {}};
  return network.Converted(
      network.Call("aten.cross_entropy_loss.default", {{"self", scores}, {"target", labels}}, "loss", loss), "bf16",
      Gpu(9, 0));
}

TEST(Float64Loss, OverManyClassesIsNotReplacedByOneInFp32) {
  EXPECT_THAT(LossOverManyClasses(/*rounds=*/false), HasSubstr("aten.cross_entropy_loss.default(self=%scores"));
}

TEST(Float64Loss, OverManyClassesDoesNotTakeALinearLayerInIt) {
  const std::string text = LossOverManyClasses(/*rounds=*/true);
  EXPECT_THAT(text, HasSubstr("aten.linear.default(input=%x, weight=%head.weight)"));
  EXPECT_THAT(text, HasSubstr("ampd.cross_entropy(self=%rounded"));
}

}  // namespace
}  // namespace ampd::precision
