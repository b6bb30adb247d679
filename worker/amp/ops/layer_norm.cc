#include "worker/amp/ops/layer_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/zeros.h"
#include "c10/util/accumulate.h"
#include "graph/cost/op_memory.h"
#include "worker/amp/step/cuda_error.h"
#include "worker/amp/step/current_stream.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

using kernels::CudaLayerNorm;
using kernels::CudaLayerNormBackward;
using kernels::LayerNormOperand;
using kernels::LayerNormResult;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

static_assert(graph::kLayerNormPartials == kernels::kLayerNormPartials);

// The tensors that a norm reads. An absent tensor is undefined.
struct Operands {
  at::Tensor x, y, weight, bias;
};

// The settings of a norm, as an object that autograd can keep for the backward pass.
struct NormOptions : torch::CustomClassHolder {
  const kernels::CudaKernels* kernels = nullptr;
  std::vector<int64_t> shape;
  double epsilon = 0;
  at::ScalarType sum_dtype = at::kFloat;
  at::ScalarType dtype = at::kFloat;
  at::Tensor amax;  // (1, 1) fp32, where the kernel stores the amax of the result; undefined: not requested.

  int64_t columns() const { return c10::multiply_integers(shape); }
};

LayerNormOperand OperandOf(const at::Tensor& tensor) {
  return tensor.defined() ? LayerNormOperand{tensor.const_data_ptr(), FormatOf(tensor)} : LayerNormOperand();
}

LayerNormResult ResultOf(const at::Tensor& tensor) {
  return tensor.defined() ? LayerNormResult{tensor.mutable_data_ptr(), FormatOf(tensor)} : LayerNormResult();
}

// Undefined tensors stay undefined.
at::Tensor Contiguous(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined() ? tensor->contiguous() : at::Tensor();
}

c10::IValue DtypeOrNone(const at::Tensor& tensor) {
  return tensor.defined() ? c10::IValue(tensor.scalar_type()) : c10::IValue();
}

// Returns an argument for autograd: nullopt if the tensor is undefined. Autograd numbers only arguments that are
// present.
std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor EmptyLike(const at::Tensor& tensor, at::ScalarType dtype) {
  return at::empty(tensor.sizes(), tensor.options().dtype(dtype));
}

struct LayerNorm : Function<LayerNorm> {
  // Returns {sum, result}, or {result} without y.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& y,
                               const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                               const c10::intrusive_ptr<NormOptions>& options) {
    const Operands in = {x.contiguous(), Contiguous(y), Contiguous(weight), Contiguous(bias)};
    const int64_t columns = options->columns();
    const int64_t rows = in.x.numel() / columns;
    const at::Tensor sum = in.y.defined() ? EmptyLike(x, options->sum_dtype) : at::Tensor();
    const at::Tensor result = EmptyLike(x, options->dtype);
    const at::Tensor moments = at::empty({2, rows}, x.options().dtype(at::kFloat));
    const CudaLayerNorm norm = {.rows = rows,
                                .columns = columns,
                                .epsilon = static_cast<float>(options->epsilon),
                                .x = OperandOf(in.x),
                                .y = OperandOf(in.y),
                                .weight = OperandOf(in.weight),
                                .bias = OperandOf(in.bias),
                                .sum = ResultOf(sum),
                                .result = ResultOf(result),
                                .mean = moments.mutable_data_ptr<float>(),
                                .inverse_deviation = moments.mutable_data_ptr<float>() + rows,
                                .amax = options->amax.defined() ? options->amax.mutable_data_ptr<float>() : nullptr};
    const kernels::CudaKernels& kernels = *options->kernels;
    CheckCuda(kernels, kernels.layer_norm->forward(&norm, CurrentStream(x.device())));
    context->set_materialize_grads(false);
    context->save_for_backward({in.y.defined() ? sum : in.x, in.weight, moments});
    auto& data = context->saved_data;
    data["options"] = c10::IValue::make_capsule(options);
    data["x_dtype"] = x.scalar_type();
    data["y_dtype"] = DtypeOrNone(in.y);
    data["weight_dtype"] = DtypeOrNone(in.weight);
    data["bias_dtype"] = DtypeOrNone(in.bias);
    return in.y.defined() ? variable_list{sum, result} : variable_list{result};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto options = c10::static_intrusive_pointer_cast<NormOptions>(context->saved_data["options"].toCapsule());
    const Operands found = gradients.back().defined() ? Differentiate(context, gradients, *options)
                                                      : OfSumOnly(context, gradients.front());
    return {found.x, found.y, found.weight, found.bias, at::Tensor()};
  }

 private:
  // The dtypes of the gradients to compute; nullopt for a gradient that autograd does not need.
  struct Wanted {
    std::optional<at::ScalarType> x, y, weight, bias;
  };

  static Wanted WantedBy(AutogradContext* context) {
    size_t next = 0;  // Position among the arguments that are present.
    const auto want = [&](const c10::IValue& dtype) -> std::optional<at::ScalarType> {
      const bool is_wanted = !dtype.isNone() && context->needs_input_grad(next++);
      return is_wanted ? std::optional(dtype.toScalarType()) : std::nullopt;
    };
    Wanted wanted;
    wanted.x = want(context->saved_data["x_dtype"]);
    wanted.y = want(context->saved_data["y_dtype"]);
    wanted.weight = want(context->saved_data["weight_dtype"]);
    wanted.bias = want(context->saved_data["bias_dtype"]);
    return wanted;
  }

  // Returns the gradients for the case that only the sum has a gradient, and its norm has none.
  static Operands OfSumOnly(AutogradContext* context, const at::Tensor& of_sum) {
    const Wanted wanted = WantedBy(context);
    Operands found;
    found.x = wanted.x.has_value() ? of_sum.to(*wanted.x) : at::Tensor();
    found.y = wanted.y.has_value() ? of_sum.to(*wanted.y) : at::Tensor();
    return found;
  }

  static Operands Differentiate(AutogradContext* context, const variable_list& gradients, const NormOptions& options) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[1], &moments = saved[2];
    const at::Tensor gradient = gradients.back().contiguous();
    const at::Tensor of_sum = gradients.size() == 2 ? Contiguous(gradients[0]) : at::Tensor();
    const Wanted wanted = WantedBy(context);
    const auto empty_if = [&](const std::optional<at::ScalarType>& dtype, at::IntArrayRef sizes) {
      return dtype.has_value() ? at::empty(sizes, sum.options().dtype(*dtype)) : at::Tensor();
    };
    const bool is_shared = wanted.x == wanted.y;  // One tensor is the gradient of x and of y.
    Operands found;
    found.x = empty_if(wanted.x, sum.sizes());
    found.y = is_shared ? at::Tensor() : empty_if(wanted.y, sum.sizes());
    found.weight = empty_if(wanted.weight, options.shape);
    found.bias = empty_if(wanted.bias, options.shape);
    const int64_t rows = moments.size(1);
    const int64_t num_partials = found.weight.defined() || found.bias.defined() ? kernels::kLayerNormPartials : 0;
    const at::Tensor partials = at::empty({num_partials, 2, options.columns()}, moments.options());
    const CudaLayerNormBackward norm = {.rows = rows,
                                        .columns = options.columns(),
                                        .gradient = OperandOf(gradient),
                                        .sum = OperandOf(sum),
                                        .weight = OperandOf(weight),
                                        .sum_gradient = OperandOf(of_sum),
                                        .mean = moments.const_data_ptr<float>(),
                                        .inverse_deviation = moments.const_data_ptr<float>() + rows,
                                        .x_gradient = ResultOf(found.x),
                                        .y_gradient = ResultOf(found.y),
                                        .weight_gradient = ResultOf(found.weight),
                                        .bias_gradient = ResultOf(found.bias),
                                        .partials = partials.mutable_data_ptr<float>()};
    const kernels::CudaKernels& kernels = *options.kernels;
    CheckCuda(kernels, kernels.layer_norm->backward(&norm, CurrentStream(sum.device())));
    found.y = is_shared ? found.x : found.y;
    return found;
  }
};

bool EndsWith(at::IntArrayRef sizes, at::IntArrayRef shape) {
  return sizes.size() >= shape.size() && std::equal(shape.rbegin(), shape.rend(), sizes.rbegin());
}

// Whether the kernels support the operands. They are passed pointers, so every size must be right. LibTorch's op
// refuses wrong sizes with an error of its own.
bool Suit(const Operands& in, const NormOptions& options, c10::Device device) {
  for (const at::Tensor* const tensor : {&in.x, &in.y, &in.weight, &in.bias}) {
    const at::ScalarType dtype = tensor->defined() ? tensor->scalar_type() : at::kFloat;
    if ((dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) ||
        (tensor->defined() && tensor->device() != device)) {
      return false;
    }
  }
  const auto is_vector = [&](const at::Tensor& tensor) { return !tensor.defined() || tensor.sizes() == options.shape; };
  return in.x.numel() > 0 && !options.shape.empty() && EndsWith(in.x.sizes(), options.shape) && is_vector(in.weight) &&
         is_vector(in.bias) && (!in.y.defined() || in.y.sizes() == in.x.sizes());
}

// Computes the sum and the norm with LibTorch's ops, in fp32.
variable_list WithLibTorch(const Operands& in, const NormOptions& options) {
  const auto wide = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kFloat) : tensor; };
  const at::Tensor sum = in.y.defined() ? wide(in.x).add(wide(in.y)).to(options.sum_dtype) : in.x;
  at::Tensor result =
      at::layer_norm(wide(sum), options.shape, wide(in.weight), wide(in.bias), options.epsilon).to(options.dtype);
  return in.y.defined() ? variable_list{sum, std::move(result)} : variable_list{std::move(result)};
}

// The amax of the result of a norm: (1, 1) fp32, without a gradient.
at::Tensor AmaxOf(const at::Tensor& result) {
  const at::Tensor amax = result.numel() > 0 ? result.detach().abs().amax() : at::zeros({}, result.options());
  return amax.to(at::kFloat).reshape({1, 1});
}

at::Tensor TensorOf(const c10::IValue& value) { return value.isNone() ? at::Tensor() : value.toTensor(); }

// Whether an optional argument is given and true.
bool IsTrueAt(const std::vector<c10::IValue>& stack, size_t position) {
  return stack.size() > position && stack[position].toBool();
}

at::ScalarType DtypeOf(const c10::IValue& value) { return static_cast<at::ScalarType>(value.toInt()); }

}  // namespace

void RegisterLayerNorm(executor::OpRegistry& registry, const ComputeDevice& device,
                       const std::function<at::Tensor()>& amax_cell) {
  const auto compute = [kernels = device.cuda_kernels, device = device.device, amax_cell](
                           const Operands& in, c10::intrusive_ptr<NormOptions> options, bool finds_amax) {
    options->kernels = kernels;
    variable_list results;
    if (kernels != nullptr && Suit(in, *options, device)) {
      options->amax = finds_amax ? amax_cell() : at::Tensor();
      results = LayerNorm::apply(in.x, IfDefined(in.y), IfDefined(in.weight), IfDefined(in.bias), options);
    } else {
      results = WithLibTorch(in, *options);
      options->amax = finds_amax ? AmaxOf(results.back()) : at::Tensor();
    }
    if (finds_amax) {
      results.push_back(options->amax);
    }
    return results;
  };
  // Reads the options from the stack of either op. `shape` and `dtype` are the positions of the arguments
  // normalized_shape and dtype; eps follows three places after normalized_shape.
  const auto options_of = [](const std::vector<c10::IValue>& stack, size_t shape, size_t dtype) {
    auto options = c10::make_intrusive<NormOptions>();
    options->shape = stack[shape].toIntVector();
    options->epsilon = stack[shape + 3].toScalar().toDouble();
    options->dtype = DtypeOf(stack[dtype]);
    return options;
  };
  registry.Register("ampd.layer_norm", [=](std::vector<c10::IValue>& stack) {
    const Operands in = {stack[0].toTensor(), {}, TensorOf(stack[2]), TensorOf(stack[3])};
    const variable_list results = compute(in, options_of(stack, 1, 5), IsTrueAt(stack, 6));
    stack.assign(results.begin(), results.end());
  });
  registry.Register("ampd.add_layer_norm", [=](std::vector<c10::IValue>& stack) {
    const Operands in = {stack[0].toTensor(), stack[1].toTensor(), TensorOf(stack[3]), TensorOf(stack[4])};
    const auto options = options_of(stack, 2, 7);
    options->sum_dtype = DtypeOf(stack[6]);
    const variable_list results = compute(in, options, IsTrueAt(stack, 8));
    stack.assign(results.begin(), results.end());
  });
}

}  // namespace ampd::amp
