#include "worker/amp/ops/upcast_matmul.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h"
#include "ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h"
#include "ATen/ops/convolution.h"
#include "ATen/ops/convolution_backward.h"
#include "ATen/ops/gru.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/lstm.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "ATen/ops/zeros.h"
#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor Wide(const at::Tensor& tensor) { return tensor.to(at::kFloat); }
at::Tensor Narrow(const at::Tensor& tensor, at::ScalarType type) { return tensor.to(type); }
std::optional<at::Tensor> Wide(const std::optional<at::Tensor>& bias) {
  return bias.has_value() ? std::optional(Wide(*bias)) : std::nullopt;
}

// The gradient rounded to 16 bits; an undefined tensor if the gradient is not needed.
at::Tensor NarrowIf(bool needed, const at::Tensor& gradient, at::ScalarType type) {
  return needed ? Narrow(gradient, type) : at::Tensor();
}

struct LinearWide : Function<LinearWide> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return Narrow(at::linear(Wide(input), Wide(weight), Wide(bias)), input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = Wide(gradients[0]);                             // (*, O)
    const at::Tensor rows = gradient.reshape({-1, gradient.size(-1)});          // (N, O)
    const at::Tensor inputs = Wide(saved[0]).reshape({-1, saved[0].size(-1)});  // (N, I)
    const at::ScalarType type = gradients[0].scalar_type();
    variable_list result(3);
    if (context->needs_input_grad(0)) {
      result[0] = Narrow(gradient.matmul(Wide(saved[1])), type);
    }
    if (context->needs_input_grad(1)) {
      result[1] = Narrow(rows.t().mm(inputs), type);
    }
    if (context->saved_data["has_bias"].toBool()) {
      result[2] = NarrowIf(context->needs_input_grad(2), rows.sum(0), type);
    }
    return result;
  }
};

// The arguments of a convolution besides its tensors.
struct ConvolutionOptions {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  std::vector<int64_t> output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

struct ConvolutionWide : Function<ConvolutionWide> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvolutionOptions& options) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["stride"] = options.stride;
    context->saved_data["padding"] = options.padding;
    context->saved_data["dilation"] = options.dilation;
    context->saved_data["output_padding"] = options.output_padding;
    context->saved_data["transposed"] = options.transposed;
    context->saved_data["groups"] = options.groups;
    return Narrow(at::convolution(Wide(input), Wide(weight), Wide(bias), options.stride, options.padding,
                                  options.dilation, options.transposed, options.output_padding, options.groups),
                  input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const bool has_bias = data["has_bias"].toBool();
    const std::array<bool, 3> needed = {context->needs_input_grad(0), context->needs_input_grad(1),
                                        has_bias && context->needs_input_grad(2)};
    const std::vector<int64_t> bias_sizes = {gradients[0].size(1)};
    const auto [input, weight, bias] = at::convolution_backward(
        Wide(gradients[0]), Wide(saved[0]), Wide(saved[1]),
        has_bias ? at::OptionalIntArrayRef(bias_sizes) : at::OptionalIntArrayRef(), data["stride"].toIntVector(),
        data["padding"].toIntVector(), data["dilation"].toIntVector(), data["transposed"].toBool(),
        data["output_padding"].toIntVector(), data["groups"].toInt(), needed);
    const at::ScalarType type = gradients[0].scalar_type();
    variable_list result(4);
    result[0] = NarrowIf(needed[0], input, type);
    result[1] = NarrowIf(needed[1], weight, type);
    result[2] = NarrowIf(needed[2], bias, type);
    return result;
  }
};

// The numbers that attention adds to its scores: the mask itself, or 0 and -infinity for a mask of truth values.
std::optional<at::Tensor> AddedMask(const std::optional<at::Tensor>& mask) {
  if (!mask.has_value() || mask->scalar_type() != at::kBool) {
    return Wide(mask);
  }
  return at::zeros(mask->sizes(), at::kFloat)
      .masked_fill_(mask->logical_not(), -std::numeric_limits<float>::infinity());
}

// Attention on fp32 copies of its operands. It saves the same tensors as a device's flash kernel.
struct AttentionWide : Function<AttentionWide> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, bool is_causal, const std::optional<at::Tensor>& mask) {
    const std::optional<at::Tensor> added = AddedMask(mask);
    const auto [wide, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(Wide(query), Wide(key), Wide(value),
                                                                                   /*dropout_p=*/0.0, is_causal, added);
    at::Tensor result = Narrow(wide, query.scalar_type());
    context->save_for_backward({query, key, value, result, logsumexp, added.value_or(at::Tensor())});
    context->saved_data["is_causal"] = is_causal;
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        Wide(gradients[0]), Wide(saved[0]), Wide(saved[1]), Wide(saved[2]), Wide(saved[3]), saved[4],
        /*dropout_p=*/0.0, context->saved_data["is_causal"].toBool(),
        saved[5].defined() ? std::optional(saved[5]) : std::nullopt);
    const at::ScalarType type = gradients[0].scalar_type();
    return {NarrowIf(context->needs_input_grad(0), query, type), NarrowIf(context->needs_input_grad(1), key, type),
            NarrowIf(context->needs_input_grad(2), value, type), at::Tensor(), at::Tensor()};
  }
};

// Whether the flash kernel supports the operands: they are (B, heads, T, D), where T may be another number for the
// query than for key and value, and a mask has no gradient and two or four dimensions.
bool IsFlashs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const std::optional<at::Tensor>& mask) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (tensor->dim() != 4 || tensor->size(0) != query.size(0) || tensor->size(1) != query.size(1) ||
        tensor->size(3) != query.size(3)) {
      return false;
    }
  }
  return !mask.has_value() || (!mask->requires_grad() && (mask->dim() == 2 || mask->dim() == 4));
}

// Operands that the flash kernel does not support go to LibTorch's attention, which autograd records op by op.
at::Tensor Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool is_causal,
                     const std::optional<at::Tensor>& mask) {
  // LibTorch does not check this for the flash kernel, which reads as many keys as there are values.
  TORCH_CHECK(key.size(-2) == value.size(-2), "attention takes one value for each key; it has ", key.size(-2),
              " keys and ", value.size(-2), " values");
  if (IsFlashs(query, key, value, mask)) {
    return AttentionWide::apply(query, key, value, is_causal, mask);
  }
  return Narrow(at::scaled_dot_product_attention(Wide(query), Wide(key), Wide(value), AddedMask(mask),
                                                 /*dropout_p=*/0.0, is_causal),
                query.scalar_type());
}

// Upcasts the tensors of a list. REQUIRES: every element of the list is defined.
std::vector<at::Tensor> WideList(const c10::IValue& list) {
  std::vector<at::Tensor> wide;
  for (const std::optional<at::Tensor>& tensor : list.toOptionalTensorVector()) {
    wide.push_back(Wide(*tensor));
  }
  return wide;
}

// No autograd function is needed: autograd records the layers op by op, and the casts round the gradients.
void LstmWide(std::vector<c10::IValue>& stack) {
  const at::ScalarType type = stack[0].toTensor().scalar_type();
  const auto [result, hidden, cell] =
      at::lstm(Wide(stack[0].toTensor()), WideList(stack[1]), WideList(stack[2]), /*has_biases=*/stack[3].toBool(),
               /*num_layers=*/stack[4].toInt(), /*dropout=*/stack[5].toScalar().toDouble(),
               /*train=*/stack[6].toBool(), /*bidirectional=*/stack[7].toBool(), /*batch_first=*/stack[8].toBool());
  stack = {Narrow(result, type), Narrow(hidden, type), Narrow(cell, type)};
}

void GruWide(std::vector<c10::IValue>& stack) {
  const at::ScalarType type = stack[0].toTensor().scalar_type();
  const auto [result, hidden] = at::gru(Wide(stack[0].toTensor()), Wide(stack[1].toTensor()), WideList(stack[2]),
                                        /*has_biases=*/stack[3].toBool(), /*num_layers=*/stack[4].toInt(),
                                        /*dropout=*/stack[5].toScalar().toDouble(), /*train=*/stack[6].toBool(),
                                        /*bidirectional=*/stack[7].toBool(), /*batch_first=*/stack[8].toBool());
  stack = {Narrow(result, type), Narrow(hidden, type)};
}

// None stays None, because autograd rejects an undefined tensor as an input.
std::optional<at::Tensor> TensorOrNone(const c10::IValue& value) { return value.toOptional<at::Tensor>(); }

// Two numbers, for height and width, even if the node gave one number for both.
std::vector<int64_t> Pair(const c10::IValue& value) {
  std::vector<int64_t> numbers = value.isInt() ? std::vector<int64_t>{value.toInt()} : value.toIntVector();
  numbers.resize(2, numbers.front());
  return numbers;
}

}  // namespace

void RegisterUpcastMatmul(executor::OpRegistry& registry) {
  registry.Register("ampd.linear_wide", [](std::vector<c10::IValue>& stack) {
    const at::Tensor result = LinearWide::apply(stack[0].toTensor(), stack[1].toTensor(), TensorOrNone(stack[2]));
    stack = {result};
  });
  registry.Register("ampd.conv2d_wide", [](std::vector<c10::IValue>& stack) {
    const ConvolutionOptions options = {.stride = Pair(stack[3]),
                                        .padding = Pair(stack[4]),
                                        .dilation = Pair(stack[5]),
                                        .output_padding = {0, 0},
                                        .groups = stack[6].toInt()};
    const at::Tensor result =
        ConvolutionWide::apply(stack[0].toTensor(), stack[1].toTensor(), TensorOrNone(stack[2]), options);
    stack = {result};
  });
  registry.Register("ampd.conv_transpose2d_wide", [](std::vector<c10::IValue>& stack) {
    const ConvolutionOptions options = {.stride = Pair(stack[3]),
                                        .padding = Pair(stack[4]),
                                        .dilation = Pair(stack[5]),
                                        .output_padding = Pair(stack[7]),
                                        .transposed = true,
                                        .groups = stack[6].toInt()};
    const at::Tensor result =
        ConvolutionWide::apply(stack[0].toTensor(), stack[1].toTensor(), TensorOrNone(stack[2]), options);
    stack = {result};
  });
  registry.Register("ampd.attention_wide", [](std::vector<c10::IValue>& stack) {
    const at::Tensor result = Attention(stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(),
                                        stack[3].toBool(), TensorOrNone(stack[4]));
    stack = {result};
  });
  registry.Register("ampd.lstm_wide", LstmWide);
  registry.Register("ampd.gru_wide", GruWide);
}

}  // namespace ampd::amp
