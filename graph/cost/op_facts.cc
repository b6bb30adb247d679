#include "graph/cost/op_facts.h"

#include "graph/fused_batch_norms.h"

namespace ampd::graph {
namespace {

// The op "ampd.linear_fp8" saves its weight unchanged, and its input in FP8 if the weight gradient is a product in FP8.
const OpRow kLinearFp8 = {
    .op = "ampd.linear_fp8", .op_class = OpClass::kLower, .saves = {"weight", "result.input_fp8"}};

// The op "ampd.cross_entropy" saves no logarithms: it computes them for a part of its rows at a time, and computes them
// again in the backward pass.
const OpRow kCrossEntropy = {.op = "ampd.cross_entropy", .op_class = OpClass::kFp32, .saves = {"self", "target"}};

// The op "ampd.linear_cross_entropy" writes the gradient of its logits over the logits. The op saves its weight, or a
// padded copy of the weight.
const OpRow kLinearCrossEntropy = {.op = "ampd.linear_cross_entropy",
                                   .op_class = OpClass::kLower,
                                   .saves = {"input", "weight", "target", "result.loss_head"}};

// The op "ampd.layer_norm" saves no bias, and "ampd.add_layer_norm" saves the sum, its first result.
const OpRow kLayerNorm = {.op = "ampd.layer_norm", .saves = {"input", "weight", "result.mean", "result.rstd"}};
const OpRow kAddLayerNorm = {.op = "ampd.add_layer_norm", .saves = {"result", "weight", "result.mean", "result.rstd"}};

constexpr std::string_view kLinear = "ampd.linear";

}  // namespace

bool IsCrossEntropy(const Node& node) { return node.op == kCrossEntropy.op; }

bool IsLinearCrossEntropy(const Node& node) { return node.op == kLinearCrossEntropy.op; }

bool IsLinearWithBias(const Node& node) { return node.op == kLinear; }

bool IsAddLayerNorm(const Node& node) { return node.op == kAddLayerNorm.op; }

bool IsFusedNorm(const Node& node) { return node.op == kLayerNorm.op || IsAddLayerNorm(node); }

const OpRow* RowOf(const Node& node) {
  for (const OpRow* const row : {&kLinearFp8, &kCrossEntropy, &kLinearCrossEntropy, &kLayerNorm, &kAddLayerNorm}) {
    if (node.op == row->op) {
      return row;
    }
  }
  return FindOp(ComputedBy(node.op));
}

bool IsWide(const Node& node) {
  return node.op.starts_with("ampd.") && !IsCrossEntropy(node) && !IsLinearCrossEntropy(node) &&
         node.op != kFusedBatchNorm && !IsLinearWithBias(node) && !IsFusedNorm(node);
}

std::vector<ValueId> ValuesOf(const Node& node, std::string_view argument) {
  std::vector<ValueId> values;
  const Operand* const operand = node.Find(argument);
  if (operand == nullptr) {
    return values;
  }
  if (const auto* const list = std::get_if<std::vector<std::optional<ValueId>>>(operand)) {
    for (const std::optional<ValueId>& value : *list) {
      values.insert(values.end(), value.has_value() ? 1 : 0, value.value_or(ValueId()));
    }
  } else if (const auto value = node.ValueOf(argument); value.has_value()) {
    values.push_back(*value);
  }
  return values;
}

bool IsConvolution(const Node& node) {
  const std::string_view op = RowOf(node)->op;
  return op == "aten.conv2d.default" || op == "aten.conv_transpose2d.input";
}

bool IsRecurrent(const Node& node) {
  const std::string_view op = RowOf(node)->op;
  return op == "aten.gru.input" || op == "aten.lstm.input";
}

bool EndsInRelu(const Node& node) {
  const Operand* const relu = node.Find("relu");
  return node.op == kFusedBatchNorm && relu != nullptr && *relu == Operand(true);
}

bool EndsInAddRelu(const Node& node) { return EndsInRelu(node) && node.ValueOf("residual").has_value(); }

std::vector<std::string_view> SavesOf(const Node& node) {
  const OpRow& row = *RowOf(node);
  const Operand* size = node.Find("output_size");
  if (size != nullptr && *size == Operand(std::vector<int64_t>{1, 1})) {
    return {};
  }
  const Operand* in_fp8 = node.Find("weight_gradient");
  if (in_fp8 != nullptr && *in_fp8 == Operand(false)) {
    return {"weight", "input"};
  }
  if (EndsInAddRelu(node)) {
    std::vector<std::string_view> saves = row.saves;
    saves.push_back("result.relu_mask");
    return saves;
  }
  return row.saves;
}

}  // namespace ampd::graph
