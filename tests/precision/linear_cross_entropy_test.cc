#include "precision/linear_cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/gpt2.h"
#include "precision/pass.h"
#include "precision/policy.h"
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
using testing::Not;

// A small GPT-2. The size of its vocabulary is odd, like 50257, the size of GPT-2's own vocabulary.
Graph Gpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(1);
  spec.set_n_embd(16);
  spec.set_n_head(2);
  spec.set_vocab_size(4099);
  spec.set_n_positions(8);
  spec.set_dropout(0);
  return models::BuildGpt2(spec, 0).value();
}

// A linear layer to `num_classes` classes, with its loss.
Graph Classifier(int64_t num_classes = kManyClasses) {
  graph::GraphBuilder b("classifier");
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 8}});
  b.Output("logits", b.Linear("head", images, num_classes));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

std::string Converted(const Graph& program, const std::string& preset, const v1::Device& device = Gpu(9, 0)) {
  const auto policy = ResolvePolicy(PresetNamed(preset), program, device, OptimizerKind::kAdam);
  EXPECT_TRUE(policy.ok()) << policy.status();
  const auto converted = ApplyPrecision(program, *policy);
  EXPECT_TRUE(converted.ok()) << converted.status();
  EXPECT_TRUE(converted->Check().ok()) << converted->Check();
  return graph::ToText(*converted);
}

TEST(WithLinearCrossEntropies, TheLossHeadOfGpt2IsTheGoldenOne) {
  for (const char* preset : {"fp32", "bf16", "torch-amp-bf16"}) {
    const std::string text = Converted(graph::WithLossHead(Gpt2()).value(), preset);
    // Compares only the nodes after the last norm, because these are the loss head.
    const size_t norm = text.find("# transformer.ln_f\n");
    ASSERT_NE(norm, std::string::npos) << text;
    ExpectGolden(absl::StrCat("tests/precision/golden/gpt2-loss-head-", preset, ".txt"),
                 text.substr(text.find('\n', norm) + 1));
  }
}

TEST(WithLinearCrossEntropies, ABiasAndTheModuleOfTheLinearLayerStay) {
  EXPECT_THAT(Converted(Classifier(), "bf16"),
              HasSubstr("float32[] = ampd.linear_cross_entropy(input=%images_bfloat16, weight=%head.weight, "
                        "bias=%head.bias, target=%labels, reduction=1)  # head"));
}

TEST(WithLinearCrossEntropies, OnlyOnAGpuAndForManyClasses) {
  const char kFused[] = "ampd.linear_cross_entropy";
  EXPECT_THAT(Converted(Classifier(), "bf16", Cpu()), Not(HasSubstr(kFused)));
  EXPECT_THAT(Converted(Classifier(kManyClasses - 1), "bf16"), Not(HasSubstr(kFused)));
}

// The evaluation program also computes the accuracy from the logits, so the logits must exist as a value.
TEST(WithLinearCrossEntropies, LogitsThatSomethingElseReadsStay) {
  const std::string text = Converted(graph::WithEvalHead(graph::EvalProgram(Gpt2())).value(), "bf16");
  EXPECT_THAT(text, HasSubstr("ampd.cross_entropy(self=%samples"));
  EXPECT_THAT(text, HasSubstr("aten.linear.default"));
  Graph shown = Classifier();
  shown.SetOutputs({shown.outputs()[0], {"logits", *shown.nodes()[1].ValueOf("self")}});
  EXPECT_THAT(Converted(shown, "bf16"), Not(HasSubstr("ampd.linear_cross_entropy")));
}

// Converts the classifier for a GPU without fusing it, changes the first node with this op, and then fuses. Returns the
// resulting graph as text.
std::string Changed(const std::string& op, const std::function<void(Node&)>& change) {
  const Graph program = Classifier();
  ResolvedPolicy policy = *ResolvePolicy(PresetNamed("bf16"), program, Gpu(9, 0), OptimizerKind::kAdam);
  policy.fuses_linear_cross_entropy = false;
  policy.fuses_linears = false;
  Graph converted = *ApplyPrecision(program, policy);
  std::vector<Node> nodes = converted.nodes();
  const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const Node& one) { return one.op == op; });
  EXPECT_NE(node, nodes.end()) << op;
  change(*node);
  converted.SetNodes(std::move(nodes));
  return graph::ToText(WithLinearCrossEntropies(converted));
}

TEST(WithLinearCrossEntropies, ProductsOfOtherKindsStay) {
  EXPECT_THAT(Changed("aten.linear.default", [](Node&) {}), HasSubstr("ampd.linear_cross_entropy"));
  EXPECT_THAT(Changed("aten.linear.default", [](Node& node) { node.op = "ampd.linear_wide"; }),
              HasSubstr("ampd.cross_entropy"));
  EXPECT_THAT(Changed("aten.linear.default", [](Node& node) { node.op = "ampd.linear_fp8"; }),
              HasSubstr("ampd.cross_entropy"));
  for (const char* op : {"aten.linear.default", "ampd.cross_entropy"}) {
    EXPECT_THAT(Changed(op, [](Node& node) { node.without_gradient = true; }), HasSubstr("ampd.cross_entropy")) << op;
  }
}

// Many models of Hugging Face convert their logits to fp32 before the loss. The fused op computes the loss in fp32
// anyway, so it can replace this cast too.
TEST(WithLinearCrossEntropies, ACastToFp32InBetweenIsPartOfTheOp) {
  const auto with_cast = [](Dtype dtype) {
    graph::GraphBuilder b("casts");
    const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 8}});
    const ValueId logits = b.Linear("head", images, kManyClasses);
    b.Output("logits", logits);
    Graph model = std::move(b).Build().value();
    const ValueId cast = model.AddNode({.op = "aten.to.dtype",
                                        .arguments = {{"self", logits}, {"dtype", dtype}},
                                        .outputs = {},
                                        .module_path = {},
                                        .keeps_fp32 = dtype == Dtype::kFloat32},
                                       "wide", {dtype, model.type(logits).shape});
    model.SetOutputs({{"logits", cast}});
    return Converted(graph::WithLossHead(model).value(), "bf16");
  };
  EXPECT_THAT(with_cast(Dtype::kFloat32),
              HasSubstr("ampd.linear_cross_entropy(input=%images_bfloat16, weight=%head.weight, bias=%head.bias"));
  EXPECT_THAT(with_cast(Dtype::kFloat16), HasSubstr("ampd.cross_entropy(self=%wide"));
}

TEST(WithLinearCrossEntropies, AValueBetweenTheTwoIsOnlyReshaped) {
  const auto between = [](const std::string& op) {
    Graph model = Gpt2();
    Graph program = graph::WithLossHead(model).value();
    ResolvedPolicy policy = *ResolvePolicy(PresetNamed("bf16"), program, Gpu(9, 0), OptimizerKind::kAdam);
    policy.fuses_linear_cross_entropy = false;
    Graph converted = *ApplyPrecision(program, policy);
    std::vector<Node> nodes = converted.nodes();
    Node& view = nodes[nodes.size() - 2];
    EXPECT_EQ(view.op, "aten.view.default");
    view.op = op;
    converted.SetNodes(std::move(nodes));
    return graph::ToText(WithLinearCrossEntropies(converted));
  };
  EXPECT_THAT(between("aten.reshape.default"), HasSubstr("ampd.linear_cross_entropy"));
  EXPECT_THAT(between("aten.relu.default"), HasSubstr("ampd.cross_entropy"));
}

}  // namespace
}  // namespace ampd::precision
