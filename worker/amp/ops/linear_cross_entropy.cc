#include "worker/amp/ops/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/addmm.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/sum.h"
#include "graph/cost/loss_memory.h"
#include "worker/amp/ops/loss_kernels.h"
#include "worker/amp/step/format.h"

// Shapes: N rows, C features, V classes, P padded classes (graph::PaddedClasses).
namespace ampd::amp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Returns a tensor (V, ...) padded with zeros to (P, ...), or the tensor itself if P equals V.
at::Tensor Padded(const at::Tensor& tensor) {
  const int64_t num_classes = tensor.size(0);
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[0] = graph::PaddedClasses(num_classes);
  if (sizes[0] == num_classes) {
    return tensor;
  }
  at::Tensor padded = at::empty(sizes, tensor.options());
  padded.narrow(0, 0, num_classes).copy_(tensor);
  padded.narrow(0, num_classes, sizes[0] - num_classes).zero_();
  return padded;
}

struct LinearCrossEntropy : Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& target, const std::optional<at::Tensor>& bias, int64_t reduction,
                            const c10::intrusive_ptr<LossKernels>& kernels) {
    const at::Tensor padded_weight = Padded(weight);  // (P, C)
    const at::Tensor rows = AsMatrix(input);
    // Without expand, the padding would change what a bias of another size than V means.
    const at::Tensor padded = bias.has_value()
                                  ? at::addmm(Padded(bias->expand({weight.size(0)})), rows, padded_weight.t())
                                  : at::mm(rows, padded_weight.t());  // (N, P)
    LossKernels::Rows logits = {
        .logits = padded.narrow(1, 0, weight.size(0)), .target = target.contiguous(), .reduction = reduction};
    at::Tensor loss = kernels->Forward(logits);
    context->save_for_backward({input, padded_weight, padded, logits.target, logits.log_sum_exp, logits.num_counted});
    context->saved_data["num_classes"] = weight.size(0);
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["reduction"] = reduction;
    context->saved_data["kernels"] = c10::IValue::make_capsule(kernels);
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &padded_weight = saved[1], &padded = saved[2];
    const int64_t num_classes = data["num_classes"].toInt();
    const LossKernels::Rows logits = {.logits = padded.narrow(1, 0, num_classes),
                                      .target = saved[3],
                                      .reduction = data["reduction"].toInt(),
                                      .log_sum_exp = saved[4],
                                      .num_counted = saved[5]};
    c10::static_intrusive_pointer_cast<LossKernels>(data["kernels"].toCapsule())
        ->Backward(logits, gradients[0], padded);
    const at::Tensor& gradient = padded;  // (N, P): now holds the gradient, padded with zeros.
    variable_list found(6);
    if (context->needs_input_grad(0)) {
      found[0] = gradient.mm(padded_weight).view(input.sizes());
    }
    if (context->needs_input_grad(1)) {
      found[1] = gradient.t().mm(AsMatrix(input)).narrow(0, 0, num_classes);
    }
    if (data["has_bias"].toBool() && context->needs_input_grad(3)) {
      found[3] = gradient.sum(0).narrow(0, 0, num_classes);
    }
    return found;
  }
};

}  // namespace

void RegisterLinearCrossEntropy(executor::OpRegistry& registry, const ComputeDevice& device) {
  if (device.cuda_kernels == nullptr) {
    return;
  }
  const auto kernels = c10::make_intrusive<LossKernels>(device);
  registry.Register("ampd.linear_cross_entropy", [kernels](std::vector<c10::IValue>& stack) {
    at::Tensor loss = LinearCrossEntropy::apply(stack[0].toTensor(), stack[1].toTensor(), stack[3].toTensor(),
                                                stack[2].toOptional<at::Tensor>(), stack[4].toInt(), kernels);
    stack = {std::move(loss)};
  });
}

}  // namespace ampd::amp
