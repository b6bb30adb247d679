#include "worker/amp/ops/attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "graph/rewriter.h"
#include "worker/kernels/cpu/attention.h"

namespace ampd::amp {
namespace {

using kernels::AttentionKernels;
using kernels::AttentionShape;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::string_view kOp = "ampd.attention_bf16";

AttentionShape ShapeOf(const at::Tensor& query, bool is_causal) {
  const int64_t width = query.size(3);
  return {.length = query.size(2),
          .width = width,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
          .is_causal = is_causal};
}

int64_t Offset(const at::Tensor& tensor, int64_t head) {
  const int64_t num_heads = tensor.size(1);
  return head / num_heads * tensor.stride(0) + head % num_heads * tensor.stride(1);
}

// Head number `head` among all heads of all samples of a tensor (B, heads, T, D).
kernels::ConstHead HeadOf(const at::Tensor& tensor, int64_t head) {
  return {static_cast<const uint16_t*>(tensor.const_data_ptr()) + Offset(tensor, head), tensor.stride(2)};
}
kernels::Head MutableHeadOf(const at::Tensor& tensor, int64_t head) {
  return {static_cast<uint16_t*>(tensor.mutable_data_ptr()) + Offset(tensor, head), tensor.stride(2)};
}

// Returns an uninitialized tensor (B, heads, T, D) whose memory is laid out as the next layer reads it: (B, T, heads,
// D).
at::Tensor EmptyAs(const at::Tensor& query) {
  return at::empty({query.size(0), query.size(2), query.size(1), query.size(3)}, query.options()).transpose(1, 2);
}

// Calls body(head, scratch) for every head, on LibTorch's threads.
template <typename Body>
void ForEachHead(const at::Tensor& query, size_t scratch_bytes, const Body& body) {
  const auto bytes = static_cast<int64_t>(scratch_bytes);
  const at::Tensor scratch = at::empty({at::get_num_threads(), bytes}, at::kByte);
  at::parallel_for(0, query.size(0) * query.size(1), 1, [&](int64_t begin, int64_t end) {
    uint8_t* const memory = scratch.data_ptr<uint8_t>() + at::get_thread_num() * bytes;
    for (int64_t head = begin; head < end; ++head) {
      body(head, memory);
    }
  });
}

struct AttentionBf16 : Function<AttentionBf16> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, bool is_causal) {
    const AttentionKernels& kernels = *kernels::BestAttention();
    const AttentionShape shape = ShapeOf(query, is_causal);
    at::Tensor result = EmptyAs(query);
    at::Tensor log_sums = at::empty({query.size(0), query.size(1), shape.length}, query.options().dtype(at::kFloat));
    ForEachHead(query, kernels.forward_scratch_bytes(shape), [&](int64_t head, void* scratch) {
      kernels.forward(shape, {HeadOf(query, head), HeadOf(key, head), HeadOf(value, head)}, MutableHeadOf(result, head),
                      log_sums.data_ptr<float>() + head * shape.length, scratch);
    });
    context->save_for_backward({query, key, value, result, log_sums});
    context->saved_data["is_causal"] = is_causal;
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const AttentionKernels& kernels = *kernels::BestAttention();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2], &result = saved[3], &log_sums = saved[4];
    const AttentionShape shape = ShapeOf(query, context->saved_data["is_causal"].toBool());
    const at::Tensor gradient = gradients[0].stride(3) == 1 ? gradients[0] : gradients[0].contiguous();
    variable_list found = {EmptyAs(query), EmptyAs(query), EmptyAs(query), at::Tensor()};
    ForEachHead(query, kernels.backward_scratch_bytes(shape), [&](int64_t head, void* scratch) {
      kernels.backward(
          shape, {HeadOf(query, head), HeadOf(key, head), HeadOf(value, head)},
          {HeadOf(result, head), log_sums.const_data_ptr<float>() + head * shape.length, HeadOf(gradient, head)},
          {MutableHeadOf(found[0], head), MutableHeadOf(found[1], head), MutableHeadOf(found[2], head)}, scratch);
    });
    return found;
  }
};

// Whether the kernel supports the operands: (B, heads, T, D) in bf16, all of one size, with contiguous rows.
bool Suit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (tensor->scalar_type() != at::kBFloat16 || tensor->dim() != 4 || tensor->sizes() != query.sizes() ||
        tensor->stride(3) != 1) {
      return false;
    }
  }
  return query.numel() > 0 && query.size(3) % kernels::BestAttention()->width_multiple == 0;
}

at::Tensor Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool is_causal) {
  return Suit(query, key, value)
             ? AttentionBf16::apply(query, key, value, is_causal)
             : at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0.0, is_causal);
}

bool IsPlainBf16Attention(const graph::Graph& program, const graph::Node& node) {
  static const auto* const plain = new std::set<std::string_view>{"query", "key", "value", "is_causal"};
  if (node.op != "aten.scaled_dot_product_attention.default" ||
      program.type(node.ValueOf("query").value()).dtype != graph::Dtype::kBFloat16) {
    return false;
  }
  for (const graph::Argument& argument : node.arguments) {
    if (!plain->contains(argument.name)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void RegisterAttention(executor::OpRegistry& registry) {
  if (kernels::BestAttention() == nullptr) {
    return;
  }
  registry.Register(kOp, [](std::vector<c10::IValue>& stack) {
    at::Tensor result = Attention(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(), stack[3].toBool());
    stack = {std::move(result)};
  });
}

graph::Graph WithRegisteredAttention(const graph::Graph& program, const executor::OpRegistry& registry) {
  if (registry.Find(kOp) == nullptr) {
    return program;
  }
  graph::Rewriter rewriter(program);
  for (graph::Node node : program.nodes()) {
    if (IsPlainBf16Attention(program, node)) {
      const graph::Operand* const is_causal = node.Find("is_causal");
      node.op = std::string(kOp);
      node.arguments = {{"query", *node.ValueOf("query")},
                        {"key", *node.ValueOf("key")},
                        {"value", *node.ValueOf("value")},
                        {"is_causal", is_causal == nullptr ? graph::Operand(false) : *is_causal}};
    }
    rewriter.Keep(std::move(node));
  }
  return std::move(rewriter).Finish();
}

}  // namespace ampd::amp
