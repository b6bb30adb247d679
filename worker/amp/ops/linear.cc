#include "worker/amp/ops/linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/mm.h"
#include "graph/cost/op_memory.h"
#include "worker/amp/ops/device_kernels.h"
#include "worker/amp/step/format.h"

// Shapes: N rows, I features of the input, O features of the output.
namespace ampd::amp {
namespace {

using kernels::CudaColumnSum;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

static_assert(graph::kColumnSumBlocks == kernels::kColumnSumBlocks && graph::kColumnSumTile == kernels::kColumnSumTile);

// Returns the sum of each column of a row-major matrix.
at::Tensor SumOfColumns(const at::Tensor& matrix, const DeviceKernels& kernels) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  at::Tensor sums = at::empty({columns}, matrix.options());
  const at::Tensor partials =
      at::empty({kernels::ColumnSumPartials(rows, columns)}, matrix.options().dtype(at::kFloat));
  const CudaColumnSum pass = {.matrix = matrix.const_data_ptr(),
                              .format = FormatOf(matrix),
                              .rows = rows,
                              .columns = columns,
                              .sums = sums.mutable_data_ptr(),
                              .partials = partials.mutable_data_ptr<float>()};
  kernels.Check(kernels.table().column_sum->sum_columns(&pass, kernels.Stream()));
  return sums;
}

struct Linear : Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const c10::intrusive_ptr<DeviceKernels>& kernels) {
    context->save_for_backward({input, weight});
    context->saved_data["kernels"] = c10::IValue::make_capsule(kernels);
    return at::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const auto kernels = c10::static_intrusive_pointer_cast<DeviceKernels>(context->saved_data["kernels"].toCapsule());
    const at::Tensor gradient = AsMatrix(gradients[0]).contiguous();  // (N, O)
    variable_list found(4);
    if (context->needs_input_grad(0)) {
      found[0] = gradient.mm(weight).view(input.sizes());
    }
    if (context->needs_input_grad(1)) {
      const at::Tensor rows = AsMatrix(input);  // (N, I)
      found[1] = weight.is_contiguous() ? gradient.t().mm(rows) : rows.t().mm(gradient).t();
    }
    if (context->needs_input_grad(2)) {
      found[2] = SumOfColumns(gradient, *kernels);
    }
    return found;
  }
};

// Whether the op's own backward pass supports the operands.
bool Suit(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, c10::Device device) {
  const at::ScalarType dtype = input.scalar_type();
  return (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) && weight.scalar_type() == dtype &&
         bias.scalar_type() == dtype && input.device() == device && weight.device() == device &&
         bias.device() == device && input.dim() >= 2 && weight.dim() == 2 && bias.dim() == 1 && input.numel() > 0 &&
         weight.numel() > 0;
}

}  // namespace

void RegisterLinear(executor::OpRegistry& registry, const ComputeDevice& device) {
  const auto kernels = device.cuda_kernels == nullptr ? nullptr : c10::make_intrusive<DeviceKernels>(device);
  registry.Register("ampd.linear", [kernels, device = device.device](std::vector<c10::IValue>& stack) {
    const at::Tensor input = stack[0].toTensor(), weight = stack[1].toTensor(), bias = stack[2].toTensor();
    at::Tensor result = kernels != nullptr && Suit(input, weight, bias, device)
                            ? Linear::apply(input, weight, bias, kernels)
                            : at::linear(input, weight, bias);
    stack = {std::move(result)};
  });
}

}  // namespace ampd::amp
