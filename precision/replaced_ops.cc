#include "precision/replaced_ops.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "graph/determinism.h"
#include "precision/pass.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Node;
using graph::Operand;

// The arguments of attention that "ampd.attention_wide" also has.
constexpr std::string_view kPlainAttention[] = {"query", "key", "value", "is_causal", "attn_mask"};

constexpr std::string_view kPlainCrossEntropy[] = {"self", "target", "reduction"};
constexpr int64_t kReductionNone = 0;
constexpr int64_t kReductionMean = 1;

bool HasOtherThan(const Node& node, absl::Span<const std::string_view> known) {
  return std::any_of(node.arguments.begin(), node.arguments.end(), [&](const graph::Argument& argument) {
    return std::find(known.begin(), known.end(), argument.name) == known.end();
  });
}

graph::Argument Take(const Node& node, const char* name, const Operand& missing = {}) {
  const Operand* given = node.Find(name);
  return {name, given == nullptr ? missing : *given};
}

}  // namespace

void ReplaceByFp8(Node& node, size_t layer, const Fp8Products& products) {
  node.arguments = {Take(node, "input"),
                    Take(node, "weight"),
                    Take(node, "bias"),
                    {"layer", static_cast<int64_t>(layer)},
                    {"forward", products.forward},
                    {"input_gradient", products.input_gradient},
                    {"weight_gradient", products.weight_gradient}};
  node.op = "ampd.linear_fp8";
}

bool ReplaceByParts(Node& node, const graph::Graph& source) {
  if (node.op != "aten.cross_entropy_loss.default" || HasOtherThan(node, kPlainCrossEntropy)) {
    return false;
  }
  const graph::TensorType& logits = source.type(*node.ValueOf("self"));
  const graph::TensorType& target = source.type(*node.ValueOf("target"));
  const graph::Argument reduction = Take(node, "reduction", kReductionMean);
  if (logits.shape.size() != 2 || logits.shape[1].is_batch() || logits.shape[1].factor() < kManyClasses ||
      target.dtype != Dtype::kInt64 || reduction.operand == Operand(kReductionNone)) {
    return false;
  }
  node.arguments = {Take(node, "self"), Take(node, "target"), reduction};
  node.op = "ampd.cross_entropy";
  return true;
}

bool ReplaceByAveragePool(Node& node, const graph::Graph& source) {
  const auto windows = graph::EqualWindows(source, node);
  if (!windows.has_value()) {
    return false;
  }
  node.arguments = {Take(node, "self"), {"kernel_size", *windows}, {"stride", *windows}};
  node.op = "aten.avg_pool2d.default";
  return true;
}

bool ReplaceByWide(Node& node) {
  const auto take = [&node](const char* name, const Operand& missing) { return Take(node, name, missing); };
  const std::vector<int64_t> ones = {1, 1};
  if (node.op == "aten.linear.default") {
    node.arguments = {take("input", {}), take("weight", {}), take("bias", {})};
    node.op = "ampd.linear_wide";
  } else if (node.op == "aten.conv2d.default") {
    node.arguments = {take("input", {}),
                      take("weight", {}),
                      take("bias", {}),
                      take("stride", ones),
                      take("padding", std::vector<int64_t>{0, 0}),
                      take("dilation", ones),
                      take("groups", int64_t{1})};
    node.op = "ampd.conv2d_wide";
  } else if (node.op == "aten.conv_transpose2d.input") {
    node.arguments = {take("input", {}),
                      take("weight", {}),
                      take("bias", {}),
                      take("stride", ones),
                      take("padding", std::vector<int64_t>{0, 0}),
                      take("dilation", ones),
                      take("groups", int64_t{1}),
                      take("output_padding", std::vector<int64_t>{0, 0})};
    node.op = "ampd.conv_transpose2d_wide";
  } else if (node.op == "aten.scaled_dot_product_attention.default" && !HasOtherThan(node, kPlainAttention)) {
    node.arguments = {take("query", {}), take("key", {}), take("value", {}), take("is_causal", false),
                      take("attn_mask", {})};
    node.op = "ampd.attention_wide";
  } else if (node.op == "aten.lstm.input" || node.op == "aten.gru.input") {
    node.arguments = {take("input", {}),      take("hx", {}),      take("params", {}), take("has_biases", {}),
                      take("num_layers", {}), take("dropout", {}), take("train", {}),  take("bidirectional", {}),
                      take("batch_first", {})};
    node.op = node.op == "aten.lstm.input" ? "ampd.lstm_wide" : "ampd.gru_wide";
  } else {
    return false;
  }
  return true;
}

}  // namespace ampd::precision
