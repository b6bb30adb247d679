#include "precision/fused_linears.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/builder/builder.h"
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
using graph::Node;
using graph::ValueId;
using testing::HasSubstr;
using testing::Not;

Graph TwoLayers() {
  graph::GraphBuilder b("layers");
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 8}});
  b.Output("logits", b.Linear("second", b.Linear("first", images, 6), 4, /*bias=*/false));
  return std::move(b).Build().value();
}

std::string Converted(const std::string& preset, const v1::Device& device) {
  const Graph program = TwoLayers();
  const auto policy = ResolvePolicy(PresetNamed(preset), program, device, OptimizerKind::kAdam);
  const auto converted = ApplyPrecision(program, *policy);
  EXPECT_TRUE(converted->Check().ok()) << converted->Check();
  return graph::ToText(*converted);
}

TEST(WithFusedLinears, OnAGpuLayersWithABiasAreReplaced) {
  const std::string text = Converted("bf16", Gpu(9, 0));
  EXPECT_THAT(text, HasSubstr("bfloat16[B, 6] = ampd.linear(input=%images_bfloat16, weight=%first.weight, "
                              "bias=%first.bias)  # first"));
  EXPECT_THAT(text, HasSubstr("aten.linear.default(input=%linear, weight=%second.weight, bias=None)  # second"));
  EXPECT_THAT(Converted("fp32", Gpu(9, 0)), HasSubstr("float32[B, 6] = ampd.linear(input=%images, "));
}

TEST(WithFusedLinears, OnACpuNothingChanges) {
  for (const char* const preset : {"fp32", "bf16"}) {
    EXPECT_THAT(Converted(preset, Cpu()), Not(HasSubstr("ampd.linear("))) << preset;
  }
}

// Changes the first layer, fuses the linear layers, and returns the resulting graph as text.
std::string Changed(void (*change)(Node&)) {
  Graph program = TwoLayers();
  std::vector<Node> nodes = program.nodes();
  change(nodes[0]);
  program.SetNodes(std::move(nodes));
  return graph::ToText(WithFusedLinears(program));
}

TEST(WithFusedLinears, OtherProductsStay) {
  const auto fused = HasSubstr("ampd.linear(");
  EXPECT_THAT(Changed([](Node&) {}), fused);
  EXPECT_THAT(Changed([](Node& node) { node.op = "ampd.linear_wide"; }), Not(fused));
  EXPECT_THAT(Changed([](Node& node) { node.op = "ampd.linear_fp8"; }), Not(fused));
  EXPECT_THAT(Changed([](Node& node) { node.without_gradient = true; }), Not(fused));
}

TEST(WithFusedLinears, OnlyMatricesInOneDtypeAreReplaced) {
  const auto text_of = [](const graph::Shape& shape, Dtype dtype, Dtype of_bias) {
    Graph program("layer");
    const ValueId input = program.AddInput("input", {dtype, shape});
    const ValueId weight = program.AddParameter("weight", {dtype, {4, 8}}, graph::Initializer::Normal(1));
    const ValueId bias = program.AddParameter("bias", {of_bias, {4}}, graph::Initializer::Normal(1));
    graph::Shape result = shape;
    result.back() = 4;
    program.AddOutput("result", program.AddNode({.op = "aten.linear.default",
                                                 .arguments = {{"input", input}, {"weight", weight}, {"bias", bias}},
                                                 .outputs = {},
                                                 .module_path = {}},
                                                "result", {dtype, result}));
    return graph::ToText(WithFusedLinears(program));
  };
  const auto fused = HasSubstr("ampd.linear(");
  EXPECT_THAT(text_of({3, 8}, Dtype::kFloat16, Dtype::kFloat16), fused);
  EXPECT_THAT(text_of({3, 8}, Dtype::kFloat16, Dtype::kFloat32), Not(fused));
  EXPECT_THAT(text_of({8}, Dtype::kFloat32, Dtype::kFloat32), Not(fused));
  EXPECT_THAT(text_of({3, 8}, Dtype::kFloat64, Dtype::kFloat64), Not(fused));
}

}  // namespace
}  // namespace ampd::precision
