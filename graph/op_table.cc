#include "graph/op_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/fused_batch_norms.h"

namespace ampd::graph {
namespace {

using enum OpClass;

// Ops to which the policy gives a dtype.
std::vector<OpRow> ComputingRows() {
  return {
      // Matrix products and convolutions.
      {.op = "aten.addmm.default", .op_class = kLower, .saves = {"mat1", "mat2"}},
      {.op = "aten.bmm.default", .op_class = kLower, .saves = {"self", "mat2"}},
      {.op = "aten.conv2d.default", .op_class = kLower, .saves = {"input", "weight"}},
      {.op = "aten.convolution.default", .op_class = kLower, .saves = {"input", "weight"}},
      {.op = "aten.linear.default", .op_class = kLower, .saves = {"input", "weight"}},
      {.op = "aten.matmul.default", .op_class = kLower, .saves = {"self", "other"}},
      {.op = "aten.mm.default", .op_class = kLower, .saves = {"self", "mat2"}},
      // `saves` lists what LibTorch's flash kernels save. They do not save the softmax. If there is a mask, they also
      // save the numbers that it adds to the scores (added_mask). OpMemory has what an attention without a flash kernel
      // saves.
      {.op = "aten.scaled_dot_product_attention.default",
       .op_class = kLower,
       .saves = {"query", "key", "value", "result", "result.logsumexp", "result.added_mask"},
       .random = true,
       .dropout_argument = "dropout_p"},
      // Losses, exponentials and long sums.
      {.op = "aten.binary_cross_entropy_with_logits.default", .op_class = kFp32, .saves = {"self", "target"}},
      {.op = "aten.cross_entropy_loss.default", .op_class = kFp32, .saves = {"target", "result.log_softmax"}},
      {.op = "aten.huber_loss.default", .op_class = kFp32, .saves = {"self", "target"}},
      {.op = "aten.log_softmax.int", .op_class = kFp32, .saves = {"result"}},
      {.op = "aten.mean.default", .op_class = kFp32},
      {.op = "aten.mean.dim", .op_class = kFp32},
      {.op = "aten.mse_loss.default", .op_class = kFp32, .saves = {"self", "target"}},
      {.op = "aten.nll_loss_nd.default", .op_class = kFp32, .saves = {"self", "target"}},
      {.op = "aten.smooth_l1_loss.default", .op_class = kFp32, .saves = {"self", "target"}},
      {.op = "aten.softmax.int", .op_class = kFp32, .saves = {"result"}},
      {.op = "aten.sum.default", .op_class = kFp32},
      {.op = "aten.sum.dim_IntList", .op_class = kFp32},
      // Norms compute in fp32 internally and return the input's dtype.
      {.op = "aten.batch_norm.default",
       .fp32_arguments = {"weight", "bias", "running_mean", "running_var"},
       .result_like = "input",
       .saves = {"input", "weight", "running_mean", "running_var", "result.save_mean", "result.save_invstd"},
       .writes = {"running_mean", "running_var"},
       .training_argument = "training"},
      {.op = "aten.layer_norm.default",
       .fp32_arguments = {"weight", "bias"},
       .result_like = "input",
       .saves = {"input", "weight", "bias", "result.mean", "result.rstd"}},
      // Ops that convert their inputs to one dtype, the widest.
      {.op = "aten.add.Tensor", .op_class = kPromote, .passes_gradient = true},
      {.op = "aten.add_.Tensor",
       .op_class = kPromote,
       .views = "self",
       .passes_gradient = true,
       .in_place_of = "aten.add.Tensor"},
      {.op = "aten.cat.default", .op_class = kPromote},
      {.op = "aten.stack.default", .op_class = kPromote},
      {.op = "aten.mul.Tensor", .op_class = kPromote, .saves = {"self", "other"}},
      {.op = "aten.sub.Tensor", .op_class = kPromote},
      // This op is banned below fp32, because fp16 cannot hold its gradient.
      {.op = "aten.binary_cross_entropy.default", .op_class = kBanned, .saves = {"self", "target"}},
  };
}

// Ops that run in the dtype of their inputs.
std::vector<OpRow> AsInputRows() {
  return {
      {.op = "aten.adaptive_avg_pool2d.default", .saves = {"self"}},
      {.op = "aten.argmax.default", .no_gradient = true},
      {.op = "aten.avg_pool2d.default", .saves = {"self"}},
      {.op = "aten.detach.default", .no_gradient = true, .views = "self"},
      {.op = "aten.dropout.default", .saves = {"result.mask"}, .random = true, .training_argument = "train"},
      {.op = "aten.embedding.default", .saves = {"indices"}},
      {.op = "aten.eq.Tensor", .no_gradient = true},
      // The saved mask has the input's first two dimensions, and is broadcast to the others.
      {.op = "aten.feature_dropout.default",
       .saves = {"result.feature_mask"},
       .random = true,
       .training_argument = "train"},
      {.op = "aten.flatten.using_ints", .views = "self", .passes_gradient = true},
      {.op = "aten.gelu.default", .saves = {"self"}},
      {.op = "aten.max_pool2d.default", .saves = {"self", "result.indices"}},
      {.op = "aten.ones_like.default", .no_gradient = true},
      {.op = "aten.permute.default", .views = "self", .passes_gradient = true},
      {.op = "aten.relu.default", .saves = {"result"}},
      {.op = "aten.relu_.default", .saves = {"self", "result"}, .views = "self", .in_place_of = "aten.relu.default"},
      {.op = "aten.reshape.default", .views = "self", .passes_gradient = true},
      {.op = "aten.select.int", .views = "self"},
      {.op = "aten.sigmoid.default", .saves = {"result"}},
      {.op = "aten.silu.default", .saves = {"self"}},
      {.op = "aten.slice.Tensor", .views = "self"},
      {.op = "aten.split.Tensor", .views = "self"},
      {.op = "aten.squeeze.dim", .views = "self", .passes_gradient = true},
      {.op = "aten.tanh.default", .saves = {"result"}},
      {.op = "aten.to.dtype", .views = "self", .passes_gradient = true},
      {.op = "aten.transpose.int", .views = "self", .passes_gradient = true},
      {.op = "aten.unsqueeze.default", .views = "self", .passes_gradient = true},
      {.op = "aten.view.default", .views = "self", .passes_gradient = true},
      {.op = "aten.zeros_like.default", .no_gradient = true},
  };
}

// Ops that only imported models have. An in-place op with "result.self" saves a copy of the argument that it
// overwrites.
std::vector<OpRow> ImportedRows() {
  return {
      {.op = "aten.clone.default", .passes_gradient = true},
      {.op = "aten.contiguous.default", .views = "self", .passes_gradient = true},
      {.op = "aten.cumsum.default", .op_class = kFp32},
      {.op = "aten.diagonal.default", .views = "self"},
      {.op = "aten.diff.default"},
      {.op = "aten.div.Tensor", .op_class = kPromote, .saves = {"self", "other"}},
      {.op = "aten.div_.Tensor",
       .op_class = kPromote,
       .saves = {"other", "result.self"},
       .views = "self",
       .in_place_of = "aten.div.Tensor"},
      {.op = "aten.dropout_.default",
       .saves = {"result.mask"},
       .random = true,
       .training_argument = "train",
       .views = "self",
       .in_place_of = "aten.dropout.default"},
      {.op = "aten.elu.default", .saves = {"self"}},
      {.op = "aten.expand.default", .views = "self"},
      {.op = "aten.group_norm.default",
       .fp32_arguments = {"weight", "bias"},
       .result_like = "input",
       .saves = {"input", "weight", "result.mean", "result.rstd"}},
      {.op = "aten.hardsigmoid.default", .saves = {"self"}},
      {.op = "aten.hardswish.default", .saves = {"self"}},
      {.op = "aten.hardswish_.default",
       .saves = {"result.self"},
       .views = "self",
       .in_place_of = "aten.hardswish.default"},
      {.op = "aten.hardtanh.default", .saves = {"self"}},
      {.op = "aten.hardtanh_.default",
       .saves = {"result.self"},
       .views = "self",
       .in_place_of = "aten.hardtanh.default"},
      {.op = "aten.le.Tensor", .no_gradient = true},
      {.op = "aten.leaky_relu.default", .saves = {"self"}},
      {.op = "aten.leaky_relu_.default",
       .saves = {"self", "result"},
       .views = "self",
       .in_place_of = "aten.leaky_relu.default"},
      {.op = "aten.masked_fill.Scalar", .saves = {"mask"}},
      {.op = "aten.masked_fill_.Scalar", .saves = {"mask"}, .views = "self", .in_place_of = "aten.masked_fill.Scalar"},
      {.op = "aten.mul_.Tensor",
       .op_class = kPromote,
       .saves = {"other", "result.self"},
       .views = "self",
       .in_place_of = "aten.mul.Tensor"},
      {.op = "aten.narrow.default", .views = "self"},
      {.op = "aten.ne.Scalar", .no_gradient = true},
      {.op = "aten.neg.default"},
      {.op = "aten.pow.Tensor_Scalar", .op_class = kFp32, .saves = {"self"}},
      {.op = "aten.rsqrt.default", .op_class = kFp32, .saves = {"result"}},
      {.op = "aten.silu_.default", .saves = {"result.self"}, .views = "self", .in_place_of = "aten.silu.default"},
      {.op = "aten.sub_.Tensor", .op_class = kPromote, .views = "self", .in_place_of = "aten.sub.Tensor"},
      {.op = "aten.unflatten.int", .views = "self", .passes_gradient = true},
  };
}

// Ops from which imported models make masks, positions and noise.
std::vector<OpRow> ImportedConstantRows() {
  return {
      {.op = "aten.abs.default", .saves = {"self"}},
      {.op = "aten.arange.default", .no_gradient = true},
      {.op = "aten.arange.start", .no_gradient = true},
      {.op = "aten.bernoulli.p", .random = true, .no_gradient = true},
      {.op = "aten.bernoulli_.float",
       .random = true,
       .no_gradient = true,
       .views = "self",
       .in_place_of = "aten.bernoulli.p"},
      {.op = "aten.chunk.default", .views = "self"},
      {.op = "aten.cos.default", .saves = {"self"}},
      {.op = "aten.empty.memory_format", .no_gradient = true},
      {.op = "aten.eq.Scalar", .no_gradient = true},
      {.op = "aten.fill.Tensor", .result_like = "self"},
      {.op = "aten.fill_.Tensor", .views = "self", .in_place_of = "aten.fill.Tensor"},
      {.op = "aten.full_like.default", .no_gradient = true},
      {.op = "aten.gt.Scalar", .no_gradient = true},
      {.op = "aten.log.default", .op_class = kFp32, .saves = {"self"}},
      {.op = "aten.lt.Scalar", .no_gradient = true},
      {.op = "aten.index.Tensor", .saves = {"indices"}},
      {.op = "aten.min.other", .op_class = kPromote, .saves = {"self", "other"}},
      {.op = "aten.new_zeros.default", .no_gradient = true},
      {.op = "aten.ones.default", .no_gradient = true},
      {.op = "aten.pad.default"},
      {.op = "aten.roll.default"},
      {.op = "aten.select_scatter.default", .result_like = "self"},
      {.op = "aten.sin.default", .saves = {"self"}},
      {.op = "aten.slice_scatter.default", .result_like = "self"},
      {.op = "aten.where.self", .op_class = kPromote, .saves = {"condition"}},
      {.op = "aten.zeros.default", .no_gradient = true},
  };
}

// Ops with which the models of the library transformers compute masks, biases and positions, and ops in the attention
// of Swin v2 and MaxViT.
std::vector<OpRow> MaskAndBiasRows() {
  return {
      {.op = "aten.baddbmm.default", .op_class = kLower, .saves = {"batch1", "batch2"}},
      {.op = "aten.bitwise_not.default", .no_gradient = true},
      {.op = "aten.clamp.default", .saves = {"self"}},
      {.op = "aten.clamp_min.default", .saves = {"self"}},
      {.op = "aten.copy.default", .result_like = "self"},
      {.op = "aten.copy_.default", .views = "self", .in_place_of = "aten.copy.default"},
      {.op = "aten.einsum.default", .op_class = kLower, .saves = {"tensors"}},
      {.op = "aten.exp.default", .op_class = kFp32, .saves = {"result"}},
      {.op = "aten.expand_as.default", .result_like = "self", .shape_argument = "other", .views = "self"},
      {.op = "aten.full.default", .no_gradient = true},
      {.op = "aten.gt.Tensor", .no_gradient = true},
      {.op = "aten.le.Scalar", .no_gradient = true},
      {.op = "aten.linalg_vector_norm.default", .op_class = kFp32, .saves = {"self", "result"}},
      {.op = "aten.logical_not.default", .no_gradient = true},
      {.op = "aten.numpy_T.default", .views = "self"},
      {.op = "aten.pow.Tensor_Tensor", .op_class = kFp32, .saves = {"self", "exponent", "result"}},
      {.op = "aten.repeat.default"},
      {.op = "aten.rsub.Scalar"},
      {.op = "aten.sqrt.default", .saves = {"result"}},
      {.op = "aten.swapaxes.default", .views = "self"},
      {.op = "aten.triu.default"},
      {.op = "aten.unbind.int", .views = "self"},
      {.op = "aten.zero.default"},
      {.op = "aten.zero_.default", .views = "self", .in_place_of = "aten.zero.default"},
  };
}

// Ops that enlarge images, as in the generator of a DCGAN.
std::vector<OpRow> GrowingRows() {
  return {
      {.op = "aten.conv_transpose2d.input", .op_class = kLower, .saves = {"input", "weight"}},
  };
}

// Ops for sequences of several lengths. For what a recurrent layer saves at each position, see
// graph/cost/recurrent_memory.h.
std::vector<OpRow> SequenceRows() {
  return {
      {.op = "aten.gather.default", .saves = {"self", "index"}},
      {.op = "aten.gru.input",
       .op_class = kLower,
       .result_like = "input",
       .saves = {"hx", "params", "result.positions"},
       .random = true,
       .training_argument = "train",
       .dropout_argument = "dropout"},
      {.op = "aten.lstm.input",
       .op_class = kLower,
       .saves = {"hx", "params", "result", "result.positions"},
       .random = true,
       .training_argument = "train",
       .dropout_argument = "dropout"},
  };
}

std::vector<OpRow> SortedRows() {
  std::vector<OpRow> rows = ComputingRows();
  for (const std::vector<OpRow>& more :
       {AsInputRows(), ImportedRows(), ImportedConstantRows(), MaskAndBiasRows(), GrowingRows(), SequenceRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) { return a.op < b.op; });
  return rows;
}

}  // namespace

std::string_view OpClassName(OpClass op_class) {
  switch (op_class) {
    case kLower:
      return "lower";
    case kFp32:
      return "fp32";
    case kPromote:
      return "promote";
    case kBanned:
      return "banned";
    case kAsInput:
      return "as_input";
  }
  return "unknown";
}

const std::vector<OpRow>& AllOps() {
  static const auto* const rows = new std::vector<OpRow>(SortedRows());
  return *rows;
}

std::string_view ComputedBy(std::string_view op) {
  static constexpr std::pair<std::string_view, std::string_view> kOurs[] = {
      {kFusedBatchNorm, "aten.batch_norm.default"},
      {"ampd.layer_norm", "aten.layer_norm.default"},
      {"ampd.add_layer_norm", "aten.layer_norm.default"},
      {"ampd.linear", "aten.linear.default"},
      {"ampd.linear_wide", "aten.linear.default"},
      {"ampd.conv2d_wide", "aten.conv2d.default"},
      {"ampd.conv_transpose2d_wide", "aten.conv_transpose2d.input"},
      {"ampd.gru_wide", "aten.gru.input"},
      {"ampd.lstm_wide", "aten.lstm.input"},
      {"ampd.attention_wide", "aten.scaled_dot_product_attention.default"}};
  const auto* const found =
      std::find_if(std::begin(kOurs), std::end(kOurs), [&](const auto& ours) { return ours.first == op; });
  return found == std::end(kOurs) ? op : found->second;
}

const OpRow* FindOp(std::string_view op) {
  const std::vector<OpRow>& rows = AllOps();
  const auto it = std::lower_bound(rows.begin(), rows.end(), op,
                                   [](const OpRow& row, std::string_view name) { return row.op < name; });
  return it != rows.end() && it->op == op ? &*it : nullptr;
}

}  // namespace ampd::graph
