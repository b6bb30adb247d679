// Tests of norms whose input has another dtype than their weights. LibTorch's CUDA kernels of layer_norm and group_norm
// need the same dtype for both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "precision/preset.h"
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

Graph Gpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(2);
  spec.set_n_embd(64);
  spec.set_n_head(2);
  spec.set_vocab_size(128);
  spec.set_n_positions(16);
  return graph::WithLossHead(models::BuildGpt2(spec, 0).value()).value();
}

Graph Bert() {
  v1::BertClassifierSpec spec;
  spec.set_num_hidden_layers(2);
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

// Returns the layer norms and group norms of a graph whose weights have another dtype than their input.
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
    }
  }
}

TEST(Norms, OnACpu_ReadFp32WeightsBesideNarrowInputs) {
  for (const char* preset : {"keras-mixed-bfloat16", "bf16"}) {
    EXPECT_THAT(NormsOfTwoDtypes(*Converted(ConvNext(), preset, Cpu())), Not(IsEmpty())) << preset;
    EXPECT_THAT(NormsOfTwoDtypes(*Converted(ConvolutionAndGroupNorm(), preset, Cpu())), Not(IsEmpty())) << preset;
  }
}

TEST(Norms, OnAGpu_ComputeTheRoundedInputInFp32AndReturnItsDtype) {
  const std::string text = graph::ToText(*Converted(ConvNext(), "bf16", Gpu(9, 0)));
  EXPECT_THAT(text, HasSubstr("%layer_norm_wide: float32[B, 4, 4, 32] = "
                              "aten.layer_norm.default(input=%transpose_float32, "));
  EXPECT_THAT(text, HasSubstr("%layer_norm: bfloat16[B, 4, 4, 32] = "
                              "aten.to.dtype(self=%layer_norm_wide, dtype=bfloat16)  # norm"));
  EXPECT_THAT(text, HasSubstr("%batch_norm: bfloat16[B, 32, 4, 4] = aten.batch_norm.default(input=%add, "));
}

}  // namespace
}  // namespace ampd::precision
