#include "worker/amp/ops/batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/batch_norm.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/zeros_like.h"
#include "graph/cost/op_memory.h"
#include "graph/fused_batch_norms.h"
#include "worker/amp/ops/device_kernels.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

using kernels::CudaBatchNorm;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

static_assert(graph::kBatchNormSumBlocks == kernels::kBatchNormSumBlocks);
static_assert(graph::kBatchNormMaskPack == kernels::kBatchNormPack);
static_assert(graph::kBatchNormSumChannels >= kernels::kBatchNormPack * kernels::kBatchNormPack);

// The arguments of the op apart from the tensors that have gradients.
struct Options {
  c10::intrusive_ptr<DeviceKernels> kernels;
  OptionalTensor running_mean;
  OptionalTensor running_variance;
  double momentum = 0;
  double epsilon = 0;
  bool cudnn_enabled = true;
  bool relu = false;
  int64_t num_results = 1;  // At most 2.
};

float* NumbersOf(const OptionalTensor& vector) {
  return vector.has_value() ? vector->mutable_data_ptr<float>() : nullptr;
}

// Returns the operands as the kernels take them. `statistics`: (2, C), the mean and the inverse standard deviation of
// each channel.
CudaBatchNorm NormOf(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const at::Tensor& statistics, const at::Tensor& scratch) {
  CudaBatchNorm norm;
  norm.format = FormatOf(input);
  norm.channels = input.size(1);
  norm.rows = input.numel() / norm.channels;
  norm.input = input.const_data_ptr();
  norm.weight = NumbersOf(weight);
  norm.bias = NumbersOf(bias);
  norm.mean = statistics.mutable_data_ptr<float>();
  norm.inverse_std = norm.mean + norm.channels;
  norm.scratch = scratch.mutable_data_ptr<float>();
  return norm;
}

at::Tensor Floats(at::IntArrayRef sizes, const at::Tensor& input) {
  return at::empty(sizes, input.options().dtype(at::kFloat));
}

at::Tensor ScratchFor(const at::Tensor& input) {
  const int64_t channels = input.size(1);
  return Floats({kernels::BatchNormScratch(input.numel() / channels, channels)}, input);
}

at::Tensor TensorOf(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }
OptionalTensor OptionalOf(const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

// Memory for the mask of ReLU, one bit for each element.
at::Tensor MaskFor(const at::Tensor& input) {
  const int64_t channels = input.size(1);
  return at::empty({input.numel() / channels, kernels::BatchNormMaskColumns(channels)},
                   input.options().dtype(at::kByte));
}

struct FusedBatchNorm : Function<FusedBatchNorm> {
  // Returns the result. If `options` ask for two results and there are a residual and a ReLU, returns the result
  // twice, as two tensors with the same memory. The backward pass then gets one gradient for each of them, and its
  // kernel adds the two. Only the kernel for a residual with a ReLU can do that.
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const OptionalTensor& residual,
                               const OptionalTensor& weight, const OptionalTensor& bias, const Options& options) {
    const bool has_mask = options.relu && residual.has_value();
    const at::Tensor mask = has_mask ? MaskFor(input) : at::Tensor();
    const at::Tensor statistics = Floats({2, input.size(1)}, input);
    const at::Tensor scratch = ScratchFor(input);
    at::Tensor output = at::empty_like(input);
    kernels::CudaBatchNormForward pass;
    pass.norm = NormOf(input, weight, bias, statistics, scratch);
    pass.norm.relu = options.relu;
    pass.norm.adds_residual = residual.has_value();
    pass.epsilon = options.epsilon;
    pass.momentum = options.momentum;
    pass.running_mean = NumbersOf(options.running_mean);
    pass.running_variance = NumbersOf(options.running_variance);
    pass.residual = residual.has_value() ? residual->const_data_ptr() : nullptr;
    pass.output = output.mutable_data_ptr();
    pass.relu_mask = has_mask ? mask.mutable_data_ptr<uint8_t>() : nullptr;
    options.kernels->Check(options.kernels->table().batch_norm->forward(&pass, options.kernels->Stream()));
    context->set_materialize_grads(false);
    context->save_for_backward({input, TensorOf(weight), TensorOf(bias), statistics, mask});
    context->saved_data["kernels"] = c10::IValue::make_capsule(options.kernels);
    context->saved_data["relu"] = options.relu;
    context->saved_data["has_residual"] = residual.has_value();
    return has_mask && options.num_results == 2 ? variable_list{output, output.tensor_data()} : variable_list{output};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto kernels = c10::static_intrusive_pointer_cast<DeviceKernels>(context->saved_data["kernels"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &mask = saved[4];
    const OptionalTensor weight = OptionalOf(saved[1]), bias = OptionalOf(saved[2]);
    const at::Tensor scratch = ScratchFor(input);
    const auto [gradient, second] = InKernelLayout(gradients, input);
    kernels::CudaBatchNormBackward pass;
    pass.norm = NormOf(input, weight, bias, saved[3], scratch);
    pass.norm.relu = context->saved_data["relu"].toBool();
    pass.norm.adds_residual = context->saved_data["has_residual"].toBool();
    pass.gradient = gradient.const_data_ptr();
    pass.second_gradient = second.defined() ? second.const_data_ptr() : nullptr;
    Wanted wanted(*context, input, pass.norm.adds_residual, weight.has_value(), bias.has_value());
    if (mask.defined()) {
      wanted.residual = at::empty_like(input);
      pass.relu_mask = mask.const_data_ptr<uint8_t>();
      pass.residual_gradient = wanted.residual.mutable_data_ptr();
    } else if (pass.norm.adds_residual) {
      wanted.residual = gradient;
    }
    pass.input_gradient = wanted.input.defined() ? wanted.input.mutable_data_ptr() : nullptr;
    pass.weight_gradient = NumbersOf(OptionalOf(wanted.weight));
    pass.bias_gradient = NumbersOf(OptionalOf(wanted.bias));
    kernels->Check(kernels->table().batch_norm->backward(&pass, kernels->Stream()));
    return {wanted.input, wanted.residual, wanted.weight, wanted.bias, at::Tensor()};
  }

 private:
  // Returns the gradients of the results in the layout of the kernels: the first is defined, the second may be
  // undefined. If no result has a gradient, the first gradient is 0.
  static std::pair<at::Tensor, at::Tensor> InKernelLayout(variable_list gradients, const at::Tensor& input) {
    std::erase_if(gradients, [](const at::Tensor& gradient) { return !gradient.defined(); });
    for (at::Tensor& gradient : gradients) {
      gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    }
    if (gradients.empty()) {
      return {at::zeros_like(input), at::Tensor()};
    }
    return {gradients[0], gradients.size() == 2 ? gradients[1] : at::Tensor()};
  }

  // Memory for the gradients that autograd needs. The kernels write the gradients. The residual's gradient is undefined
  // until the caller sets it.
  struct Wanted {
    Wanted(const AutogradContext& context, const at::Tensor& of_input, bool has_residual, bool has_weight,
           bool has_bias) {
      // Autograd numbers only the tensors that are present, so an absent residual or weight shifts the numbers of the
      // tensors after it.
      const size_t weight_place = has_residual ? 2 : 1;
      const size_t bias_place = weight_place + (has_weight ? 1 : 0);
      if (context.needs_input_grad(0)) {
        input = at::empty_like(of_input);
      }
      if (has_weight && context.needs_input_grad(weight_place)) {
        weight = Floats({of_input.size(1)}, of_input);
      }
      if (has_bias && context.needs_input_grad(bias_place)) {
        bias = Floats({of_input.size(1)}, of_input);
      }
    }

    at::Tensor input, residual, weight, bias;
  };
};

bool IsChannelsLast(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
}

// Whether an optional vector is absent or has one fp32 number for each channel of the images, on their device.
bool IsVectorFor(const at::Tensor& images, const OptionalTensor& vector) {
  return !vector.has_value() || (vector->scalar_type() == at::kFloat && vector->is_contiguous() &&
                                 vector->numel() == images.size(1) && vector->device() == images.device());
}

// Whether the kernels support the operands. They are passed pointers, so every size must be right. LibTorch's op
// refuses wrong sizes with an error of its own.
bool Suit(const at::Tensor& input, const OptionalTensor& residual, const OptionalTensor& weight,
          const OptionalTensor& bias, const Options& options) {
  const at::ScalarType type = input.scalar_type();
  const bool is_known = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  const bool residual_suits =
      !residual.has_value() || (residual->sizes() == input.sizes() && residual->scalar_type() == type &&
                                IsChannelsLast(*residual) && residual->device() == input.device());
  return is_known && input.numel() > 0 && IsChannelsLast(input) && residual_suits && IsVectorFor(input, weight) &&
         IsVectorFor(input, bias) && IsVectorFor(input, options.running_mean) &&
         IsVectorFor(input, options.running_variance);
}

variable_list BatchNorm(const at::Tensor& input, const OptionalTensor& residual, const OptionalTensor& weight,
                        const OptionalTensor& bias, const Options& options) {
  if (Suit(input, residual, weight, bias, options)) {
    return FusedBatchNorm::apply(input, residual, weight, bias, options);
  }
  const at::Tensor norm = at::batch_norm(input, weight, bias, options.running_mean, options.running_variance,
                                         /*training=*/true, options.momentum, options.epsilon, options.cudnn_enabled);
  const at::Tensor sum = residual.has_value() ? norm.add(*residual) : norm;
  return {options.relu ? at::relu(sum) : sum};
}

OptionalTensor GivenTensor(const c10::IValue& value) { return value.toOptional<at::Tensor>(); }

}  // namespace

void RegisterBatchNorm(executor::OpRegistry& registry, const ComputeDevice& device) {
  if (device.cuda_kernels == nullptr) {
    return;
  }
  const auto kernels = c10::make_intrusive<DeviceKernels>(device);
  registry.Register(graph::kFusedBatchNorm, [kernels](std::vector<c10::IValue>& stack) {
    const Options options = {.kernels = kernels,
                             .running_mean = GivenTensor(stack[3]),
                             .running_variance = GivenTensor(stack[4]),
                             .momentum = stack[6].toScalar().toDouble(),
                             .epsilon = stack[7].toScalar().toDouble(),
                             .cudnn_enabled = stack[8].toBool(),
                             .relu = stack[9].toBool(),
                             .num_results = stack[10].toInt()};
    variable_list results =
        BatchNorm(stack[0].toTensor(), GivenTensor(stack[5]), GivenTensor(stack[1]), GivenTensor(stack[2]), options);
    results.resize(static_cast<size_t>(options.num_results), results[0]);  // Autograd adds gradients of one tensor.
    stack.assign(results.begin(), results.end());
  });
}

graph::Graph WithRegisteredBatchNorms(const graph::Graph& program, const executor::OpRegistry& registry) {
  return registry.Find(graph::kFusedBatchNorm) == nullptr ? program : graph::WithFusedBatchNorms(program);
}

}  // namespace ampd::amp
