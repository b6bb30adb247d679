#include "worker/amp/fp8/fp8_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "ATen/core/grad_mode.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/linear.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

using precision::Fp8Products;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The layer that an op computes, and which of its products are in FP8.
struct Call {
  c10::intrusive_ptr<Fp8Layers> layers;
  size_t layer = 0;
  Fp8Products products;
  bool records = false;  // The pass is part of a training step, so autograd records it.
  // Whether a backward pass may compute the input's gradient. Also true if autograd does not record this pass: it may
  // be the first run of a checkpoint segment, and autograd records the segment when it runs again.
  bool passes_gradient = true;
  at::Tensor input_amax = {};  // (1, 1); undefined if no earlier op has found it.
};

// Computes input (N, I) times weight (O, I) transposed, plus the bias: (N, O). `in_fp8` is the quantized input; it is
// read only if the product is in FP8.
at::Tensor ForwardProduct(const Call& call, const Fp8Matrix& in_fp8, const at::Tensor& input, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  if (!call.products.forward) {
    return at::linear(input, weight, bias);
  }
  Fp8Layers& layers = *call.layers;
  const Fp8Sums later = {.over_rows = call.products.input_gradient && call.passes_gradient};
  const Fp8Operands b = layers.QuantizeWeight(call.layer, weight, {.over_columns = true}, later, call.records);
  at::Tensor result = layers.Multiply(in_fp8, b.over_columns, bias, input.scalar_type(), /*fast_accumulation=*/true);
  if (layers.canary() && call.records) {
    layers.Compare(call.layer, Fp8Product::kForward, result, at::linear(input, weight, bias));
  }
  return result;
}

// Computes the gradient of the input: gradient (N, O) times weight (O, I), in FP8 or in the gradient's own format.
// Returns (N, I). `in_fp8`: the quantized gradient.
at::Tensor InputGradient(const Call& call, const Fp8Operands& in_fp8, const at::Tensor& gradient,
                         const at::Tensor& weight) {
  if (!call.products.input_gradient) {
    return gradient.mm(weight);
  }
  Fp8Layers& layers = *call.layers;
  const Fp8Operands b = layers.QuantizeWeight(call.layer, weight, {.over_rows = true}, /*later=*/{}, true);
  at::Tensor result = layers.Multiply(in_fp8.over_columns, b.over_rows, std::nullopt, gradient.scalar_type(),
                                      /*fast_accumulation=*/false);
  if (layers.canary()) {
    layers.Compare(call.layer, Fp8Product::kInputGradient, result, gradient.mm(weight));
  }
  return result;
}

// Computes the gradient of the weight (O, I): gradient (N, O) transposed times input (N, I), in FP8 or in their own
// format. `in_fp8`: the quantized gradient. `input_in_fp8`: the quantized input, transposed (I, N).
at::Tensor WeightGradient(const Call& call, const Fp8Operands& in_fp8, const at::Tensor& gradient,
                          const Fp8Matrix& input_in_fp8, const at::Tensor& input, at::ScalarType dtype) {
  if (!call.products.weight_gradient) {
    return gradient.t().mm(input).to(dtype);
  }
  Fp8Layers& layers = *call.layers;
  at::Tensor result = layers.Multiply(in_fp8.over_rows, input_in_fp8, std::nullopt, dtype, /*fast_accumulation=*/false);
  if (layers.canary() && input.defined()) {
    layers.Compare(call.layer, Fp8Product::kWeightGradient, result, gradient.t().mm(input));
  }
  return result;
}

struct LinearFp8 : Function<LinearFp8> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Call* given) {
    const Call call = *given;
    const at::Tensor rows = AsMatrix(input);
    const Fp8Sums sums = {.over_columns = call.products.forward,
                          .over_rows = call.records && call.products.weight_gradient};
    Fp8Operands in_fp8;
    if (sums.any()) {
      in_fp8 = call.layers->Quantize(call.layer, Fp8Operand::kInput, rows, sums, call.records, call.input_amax);
    }
    const at::Tensor result = ForwardProduct(call, in_fp8.over_columns, rows, weight, bias);
    if (call.records) {
      Keep(context, call, in_fp8.over_rows, rows, weight);
    }
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["sizes"] = input.sizes().vec();
    std::vector<int64_t> sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return result.view(sizes);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const Call call = {c10::static_intrusive_pointer_cast<Fp8Layers>(data["layers"].toCapsule()),
                       static_cast<size_t>(data["layer"].toInt()),
                       {true, data["input_gradient"].toBool(), data["weight_gradient"].toBool()},
                       true};
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[0];
    const at::Tensor gradient = AsMatrix(gradients[0]);
    const Fp8Sums sums = {.over_columns = call.products.input_gradient && context->needs_input_grad(0),
                          .over_rows = call.products.weight_gradient && context->needs_input_grad(1)};
    Fp8Operands in_fp8;
    if (sums.any()) {
      in_fp8 = call.layers->Quantize(call.layer, Fp8Operand::kGradient, gradient, sums, true);
    }
    variable_list result(4);
    if (context->needs_input_grad(0)) {
      result[0] = InputGradient(call, in_fp8, gradient, weight).view(data["sizes"].toIntVector());
    }
    if (context->needs_input_grad(1)) {
      const Fp8Matrix input = sums.over_rows ? Fp8Matrix{saved[2], saved[3], BlockOfSaved(data)} : Fp8Matrix();
      result[1] = WeightGradient(call, in_fp8, gradient, input, saved[1], weight.scalar_type());
    }
    if (data["has_bias"].toBool() && context->needs_input_grad(2)) {
      result[2] = gradient.sum(0, false, at::kFloat).to(gradient.scalar_type());
    }
    return result;
  }

 private:
  static Fp8Block BlockOfSaved(const ska::flat_hash_map<std::string, c10::IValue>& data) {
    const std::vector<int64_t> block = data.at("block").toIntVector();
    return {block[0], block[1]};
  }

  // Saves tensors for the backward pass: the weight; the input, if the backward pass computes a product from it without
  // FP8; and the transposed input in FP8.
  static void Keep(AutogradContext* context, const Call& call, const Fp8Matrix& in_fp8, const at::Tensor& input,
                   const at::Tensor& weight) {
    auto& data = context->saved_data;
    data["layers"] = c10::IValue::make_capsule(call.layers);
    data["layer"] = static_cast<int64_t>(call.layer);
    data["input_gradient"] = call.products.input_gradient;
    data["weight_gradient"] = call.products.weight_gradient;
    variable_list saved = {weight, {}, {}, {}};
    if (!call.products.weight_gradient || call.layers->canary()) {
      saved[1] = input;
    }
    if (call.products.weight_gradient) {
      saved[2] = in_fp8.data;
      saved[3] = in_fp8.inverse_scale;
      data["block"] = std::vector<int64_t>{in_fp8.block.rows, in_fp8.block.columns};
    }
    context->save_for_backward(std::move(saved));
  }
};

}  // namespace

void RegisterFp8Linear(executor::OpRegistry& registry, const c10::intrusive_ptr<Fp8Layers>& layers) {
  registry.Register("ampd.linear_fp8", [layers](std::vector<c10::IValue>& stack) {
    const at::Tensor& input = stack[0].toTensor();
    const at::Tensor& weight = stack[1].toTensor();
    const auto bias = stack[2].toOptional<at::Tensor>();
    const Call call = {layers,
                       static_cast<size_t>(stack[3].toInt()),
                       {stack[4].toBool(), stack[5].toBool(), stack[6].toBool()},
                       at::GradMode::is_enabled(),
                       !at::GradMode::is_enabled() || input.requires_grad(),
                       stack.size() > 7 ? stack[7].toTensor() : at::Tensor()};
    at::Tensor result =
        layers->demoted(call.layer) ? at::linear(input, weight, bias) : LinearFp8::apply(input, weight, bias, &call);
    stack = {std::move(result)};
  });
}

}  // namespace ampd::amp
