// Memory that ops need only while they run.
#include <algorithm>

#include "graph/cost/op_facts.h"
#include "graph/cost/op_memory.h"
#include "graph/fused_batch_norms.h"

namespace ampd::graph {

// Bytes of the channels-last copy of its input that a convolution makes in every pass that reads the input. There is no
// copy if the input is channels-last already or has one channel.
int64_t OpMemory::ImageCopy(const Node& node) const {
  if (!IsConvolution(node)) {
    return 0;
  }
  const ValueId input = *node.ValueOf("input");
  return states_[Index(input)].channels_last || graph_.type(input).shape[1].factor() == 1 ? 0 : Bytes(input);
}

// Bytes of all fp32 copies that the node works on. REQUIRES: its op computes in fp32 copies (IsWide).
int64_t OpMemory::WideCopies(const Node& node) const {
  int64_t bytes = 0;
  for (const auto& list : {node.Uses(), node.outputs}) {
    for (ValueId id : list) {
      bytes += WideBytes(id);
    }
  }
  return bytes;
}

// Bytes that the node's backward pass needs, all in fp32: the gradient of the result, the saved tensors, and the
// gradients of the arguments. A linear layer holds only one gradient of an argument at a time. REQUIRES: its op
// computes in fp32 copies (IsWide).
int64_t OpMemory::WideBackward(const Node& node) const {
  if (!IsConvolution(node) && node.op != "ampd.linear_wide") {
    return 2 * WideCopies(node);
  }
  int64_t bytes = WideBytes(node.outputs[0]);
  for (const ValueId use : node.Uses()) {
    bytes += WideBytes(use) * (IsTrained(use) ? 2 : 1);
  }
  return IsConvolution(node) ? bytes : bytes - WideBytes(*node.ValueOf("weight"));
}

// Bytes of a loss's terms, one for each element, before they are summed.
int64_t OpMemory::UnsummedLoss(const Node& node) const {
  const bool is_by_element = node.op == "aten.mse_loss.default" || node.op == "aten.smooth_l1_loss.default" ||
                             node.op == "aten.huber_loss.default";
  return is_by_element ? Bytes(*node.ValueOf("self")) : 0;
}

// Bytes of an fp32 copy of the logits of the rows that "ampd.cross_entropy" processes at a time. Its GPU kernels need
// no such copy.
int64_t OpMemory::LogarithmPart(const Node& node) const {
  if (!IsCrossEntropy(node) || on_gpu_) {
    return 0;
  }
  const ValueId logits = *node.ValueOf("self");
  const int64_t num_classes = graph_.type(logits).shape[1].factor();
  const int64_t row_bytes = num_classes * static_cast<int64_t>(sizeof(float));
  return std::min(WideBytes(logits), CrossEntropyRows(num_classes) * row_bytes);
}

// The most bytes that the partial sums of a fused batch norm can take. Each thread block stores two fp32 numbers for
// each channel that the block sums, and there are two more numbers for each channel
// (worker/kernels/cuda/batch_norm_kernels.h).
int64_t OpMemory::PartialSums(const Node& node) const {
  if (node.op != kFusedBatchNorm) {
    return 0;
  }
  constexpr int64_t kMostSums = kBatchNormSumBlocks * kBatchNormSumChannels;
  const int64_t channels = graph_.type(node.outputs[0]).shape[1].factor();
  return 2 * (std::max(kMostSums, channels) + channels) * static_cast<int64_t>(sizeof(float));
}

// Bytes of the partial sums from which a fused layer norm computes the gradients of its weight and bias.
int64_t OpMemory::NormPartials(const Node& node) const {
  int64_t columns = 0;
  for (const char* const name : {"weight", "bias"}) {
    const auto value = node.ValueOf(name);
    columns = IsFusedNorm(node) && value.has_value() && IsTrained(*value) ? Elements(*value) : columns;
  }
  return kLayerNormPartials * 2 * columns * static_cast<int64_t>(sizeof(float));
}

// The most bytes that "ampd.linear" can need for the partial sums of its bias gradient. Each thread block stores one
// fp32 number for each column that the block sums (worker/kernels/cuda/column_sum_kernels.h).
int64_t OpMemory::BiasPartials(const Node& node) const {
  if (!IsLinearWithBias(node) || !IsTrained(*node.ValueOf("bias"))) {
    return 0;
  }
  const int64_t columns = Elements(*node.ValueOf("bias"));
  return (kColumnSumBlocks * std::min(columns, kColumnSumTile) + columns) * static_cast<int64_t>(sizeof(float));
}

int64_t OpMemory::ForwardWorkspace(const Node& node) const {
  const int64_t scores = MakesScores(node) ? AttentionForwardBytes(AttentionSizesOf(node)) : 0;
  // LogarithmPart counts twice: for the logits in fp32, and for their log-softmax.
  return scores + 2 * LogarithmPart(node) + ImageCopy(node) + UnsummedLoss(node) + PartialSums(node) +
         (IsWide(node) ? WideCopies(node) : 0);
}

// Bytes of the copies that max-pooling of channels-last images makes in its backward pass. The op makes copies if its
// result was flattened, because the gradient of a flattened result is not channels-last.
int64_t OpMemory::PoolingCopies(const Node& node) const {
  if (node.op != "aten.max_pool2d.default" || !states_[Index(node.outputs[0])].flattened_by_copy) {
    return 0;
  }
  return Bytes(*node.ValueOf("self")) + InnerBytes(node, "result.indices");
}

// Bytes of the gradient of a broadcast argument, before it is summed.
int64_t OpMemory::UnsummedGradient(const Node& node) const {
  const auto other = node.ValueOf("other");
  const bool is_repeated = node.op == "aten.mul.Tensor" && other.has_value() && IsTrained(*other) &&
                           Elements(*other) < Elements(node.outputs[0]);
  return is_repeated ? Bytes(node.outputs[0]) : 0;
}

// Bytes that oneDNN needs on a CPU for the weight gradient of a depthwise convolution. oneDNN sums the gradient in fp32
// and takes a whole block of 16 x 16 elements for each element of the weight. For a 16-bit weight it also rounds the
// whole blocks to 16 bits.
int64_t OpMemory::BlockedWeights(const Node& node) const {
  constexpr int64_t kBlockElements = int64_t{16} * 16;
  const Operand* const groups = node.Find("groups");
  const std::string_view op = RowOf(node)->op;
  if ((op != "aten.conv2d.default" && op != "aten.convolution.default") || groups == nullptr ||
      *groups == Operand(int64_t{1})) {
    return 0;
  }
  const ValueId weight = *node.ValueOf("weight");
  const bool is_depthwise = *groups == Operand(graph_.type(weight).shape[0].factor());
  const int64_t rounded_bytes = graph_.type(weight).dtype == Dtype::kFloat32 ? 0 : Bytes(weight);
  return is_depthwise ? kBlockElements * (WideBytes(weight) + rounded_bytes) : 0;
}

// Bytes of the copies that oneDNN makes of a transposed convolution's weights on a CPU: it reads them in the order of a
// plain convolution, and returns their gradient in that order.
int64_t OpMemory::TurnedWeights(const Node& node) const {
  if (RowOf(node)->op != "aten.conv_transpose2d.input") {
    return 0;
  }
  const ValueId weight = *node.ValueOf("weight");
  return 2 * (IsWide(node) ? WideBytes(weight) : Bytes(weight));
}

int64_t OpMemory::BackwardWorkspace(const Node& node) const {
  // LibTorch computes a cross entropy as nll_loss of log_softmax. `between` is the gradient of log_softmax's result.
  const int64_t between = node.op == "aten.cross_entropy_loss.default" ? Bytes(*node.ValueOf("self")) : 0;
  const int64_t gates = IsRecurrent(node) ? RecurrentBackwardBytes(RecurrentSizesOf(node)) : 0;
  const int64_t scores = MakesScores(node) ? AttentionBackwardBytes(AttentionSizesOf(node)) : 0;
  // LogarithmPart counts three times: for the logarithms, for their gradients and for the gradients of the logits.
  return scores + gates + between + 3 * LogarithmPart(node) + ImageCopy(node) + PoolingCopies(node) +
         UnsummedGradient(node) + BlockedWeights(node) + TurnedWeights(node) + PartialSums(node) + NormPartials(node) +
         BiasPartials(node) + (IsWide(node) ? WideBackward(node) : 0);
}

}  // namespace ampd::graph
