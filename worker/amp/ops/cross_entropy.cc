#include "worker/amp/ops/cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ATen/core/Reduction.h"
#include "ATen/core/grad_mode.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/_log_softmax_backward_data.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/nll_loss.h"
#include "ATen/ops/zeros_like.h"
#include "graph/cost/loss_memory.h"
#include "graph/heads.h"
#include "worker/amp/ops/loss_kernels.h"

namespace ampd::amp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kIgnored = graph::kIgnoredLabel;

// Splits the rows into parts, and calls body(begin, rows) for each part.
template <typename Body>
void ForEachPart(const at::Tensor& logits, const Body& body) {
  const int64_t part = graph::CrossEntropyRows(logits.size(1));
  for (int64_t begin = 0; begin < logits.size(0); begin += part) {
    body(begin, std::min(part, logits.size(0) - begin));
  }
}

at::Tensor LogSoftmaxOf(const at::Tensor& logits, int64_t begin, int64_t rows) {
  return at::log_softmax(logits.narrow(0, begin, rows), 1, at::kFloat);
}

// Whether the backward pass may write over the logits that the forward pass saved. It may if nothing else will read
// their memory. That is the case if only the saved variables and the caller hold the tensor and, if the tensor is a
// view, only this view holds the tensor behind it. The memory estimate assumes that this holds
// (graph::OpMemory::WritesGradientOver).
bool MayWriteOver(const at::Tensor& logits) {
  constexpr size_t kSavedVariableAndCaller = 2;
  if (at::GradMode::is_enabled() || logits.use_count() != kSavedVariableAndCaller ||
      !logits.is_non_overlapping_and_dense()) {
    return false;
  }
  return logits.is_view() ? logits._base().use_count() == 1 && logits.storage().use_count() == 2
                          : logits.storage().use_count() == 1;
}

struct CrossEntropy : Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target,
                            int64_t reduction) {
    const at::Tensor index = target.masked_fill(target.eq(kIgnored), 0).unsqueeze(1);  // (N, 1)
    const at::Tensor picked = at::empty({logits.size(0), 1}, logits.options().dtype(at::kFloat));
    ForEachPart(logits, [&](int64_t begin, int64_t rows) {
      picked.narrow(0, begin, rows).copy_(LogSoftmaxOf(logits, begin, rows).gather(1, index.narrow(0, begin, rows)));
    });
    context->save_for_backward({logits, target});
    context->saved_data["reduction"] = reduction;
    // nll_loss reads no log-probability except the target's. So pass it only that one (`picked`), as the single class
    // 0. The loss is the same.
    return at::nll_loss(picked, at::zeros_like(target).masked_fill_(target.eq(kIgnored), kIgnored), /*weight=*/{},
                        reduction, kIgnored);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &target = saved[1];
    const at::Tensor ignored = target.eq(kIgnored);
    const at::Tensor index = target.masked_fill(ignored, 0).unsqueeze(1);
    at::Tensor of_row = gradients[0].neg();
    if (context->saved_data["reduction"].toInt() == at::Reduction::Mean) {
      of_row = of_row.div(ignored.logical_not().sum().to(at::kFloat));
    }
    const at::Tensor of_rows = of_row.expand({logits.size(0)}).masked_fill(ignored, 0).unsqueeze(1);  // (N, 1)
    // detach() makes an alias with the same version counter. Writing to it raises the counter, so that autograd rejects
    // a second backward pass, which would read overwritten logits.
    at::Tensor found = MayWriteOver(logits) ? logits.detach() : at::empty_like(logits);
    ForEachPart(logits, [&](int64_t begin, int64_t rows) {
      const at::Tensor logarithms = LogSoftmaxOf(logits, begin, rows);
      const at::Tensor of_picked =
          at::zeros_like(logarithms).scatter_(1, index.narrow(0, begin, rows), of_rows.narrow(0, begin, rows));
      found.narrow(0, begin, rows).copy_(at::_log_softmax_backward_data(of_picked, logarithms, 1, at::kFloat));
    });
    return {found, at::Tensor(), at::Tensor()};
  }
};

// The cross entropy as computed by ampd's CUDA kernels.
struct CudaCrossEntropy : Function<CudaCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& target,
                            int64_t reduction, const c10::intrusive_ptr<LossKernels>& kernels) {
    LossKernels::Rows rows = {.logits = logits.stride(1) == 1 ? logits : logits.contiguous(),
                              .target = target.contiguous(),
                              .reduction = reduction};
    at::Tensor loss = kernels->Forward(rows);
    context->save_for_backward({rows.logits, rows.target, rows.log_sum_exp, rows.num_counted});
    context->saved_data["reduction"] = reduction;
    context->saved_data["kernels"] = c10::IValue::make_capsule(kernels);
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    at::Tensor found = MayWriteOver(logits) ? logits.detach() : at::empty_like(logits);
    const LossKernels::Rows rows = {.logits = logits,
                                    .target = saved[1],
                                    .reduction = context->saved_data["reduction"].toInt(),
                                    .log_sum_exp = saved[2],
                                    .num_counted = saved[3]};
    c10::static_intrusive_pointer_cast<LossKernels>(context->saved_data["kernels"].toCapsule())
        ->Backward(rows, gradients[0], found);
    return {found, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void OnCpu(std::vector<c10::IValue>& stack) {
  at::Tensor loss = CrossEntropy::apply(stack[0].toTensor(), stack[1].toTensor(), stack[2].toInt());
  stack = {std::move(loss)};
}

}  // namespace

void RegisterCrossEntropy(executor::OpRegistry& registry, const ComputeDevice& device) {
  constexpr char kName[] = "ampd.cross_entropy";
  if (device.cuda_kernels == nullptr) {
    registry.Register(kName, OnCpu);
    return;
  }
  const auto kernels = c10::make_intrusive<LossKernels>(device);
  registry.Register(kName, [kernels](std::vector<c10::IValue>& stack) {
    at::Tensor loss = CudaCrossEntropy::apply(stack[0].toTensor(), stack[1].toTensor(), stack[2].toInt(), kernels);
    stack = {std::move(loss)};
  });
}

}  // namespace ampd::amp
