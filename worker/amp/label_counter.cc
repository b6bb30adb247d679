#include "worker/amp/label_counter.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/passes.h"
#include "worker/executor/dtype.h"

namespace ampd::amp {
namespace {

// Reads a count: a scalar of one of the types that graph::LabelCountProgram allows. Reads its memory directly. item()
// would be an op that may wait for a device, and a step must have no such op.
double NumberIn(const at::Tensor& count) {
  switch (count.scalar_type()) {
    case at::kLong:
      return static_cast<double>(*count.const_data_ptr<int64_t>());
    case at::kInt:
      return *count.const_data_ptr<int32_t>();
    default:
      return *count.const_data_ptr<float>();
  }
}

double CheckedCount(double count) {
  if (!std::isfinite(count) || count < 0) {
    throw LabelCountError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                          absl::StrCat("the output that model.exported.count_output names is ", count,
                                       " of a batch; it must be the number of its labels, 0 or more"));
  }
  return count;
}

}  // namespace

int64_t NumLabelsIn(const at::Tensor& labels) {
  const auto* const begin = labels.const_data_ptr<int64_t>();
  return labels.numel() - std::count(begin, begin + labels.numel(), graph::kIgnoredLabel);
}

absl::StatusOr<LabelCounter> LabelCounter::Create(const graph::Graph& model, std::optional<graph::Head> head,
                                                  const executor::OpRegistry& registry) {
  AMPD_ASSIGN_OR_RETURN(const auto count, graph::LabelCountProgram(model));
  std::unique_ptr<executor::Executor> program;
  if (count.has_value() && head == graph::Head::kOwnLoss) {
    AMPD_ASSIGN_OR_RETURN(program, executor::Executor::Create(*count, registry));
  }
  return LabelCounter(head, std::move(program));
}

absl::Status LabelCounter::Bind(const executor::TensorMap& buffers) {
  if (program_ == nullptr) {
    return absl::OkStatus();
  }
  executor::TensorMap read;
  for (const graph::State& buffer : program_->graph().buffers()) {
    const at::ScalarType dtype = executor::ToScalarType(program_->graph().type(buffer.value).dtype);
    read[buffer.name] = buffers.at(buffer.name).to(at::kCPU, dtype, /*non_blocking=*/false, /*copy=*/true);
  }
  return program_->Bind(read);
}

double LabelCounter::CountOf(const Batch& batch) const {
  if (program_ != nullptr) {
    const at::NoGradGuard no_grad;
    const at::Tensor count = program_->Run(InputsOf(program_->graph(), batch, at::kCPU))[0];
    return CheckedCount(NumberIn(count));
  }
  if (!head_.has_value() || *head_ == graph::Head::kOwnLoss) {
    return static_cast<double>(NumSamples(batch));
  }
  const bool has_classes = *head_ == graph::Head::kClassification || *head_ == graph::Head::kLanguageModel;
  return static_cast<double>(has_classes ? NumLabelsIn(batch.labels.contiguous()) : batch.labels.numel());
}

std::vector<bool> LabelCounter::Weigh(std::vector<Batch>& micro_batches) const {
  std::vector<bool> counts_nothing;
  if (micro_batches.size() == 1) {
    return counts_nothing;
  }
  std::vector<double> counts;
  std::transform(micro_batches.begin(), micro_batches.end(), std::back_inserter(counts),
                 [this](const Batch& batch) { return CountOf(batch); });
  double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (total == 0) {
    total = static_cast<double>(counts.size());
    std::fill(counts.begin(), counts.end(), 1);
  } else if (std::find(counts.begin(), counts.end(), 0) != counts.end()) {
    std::transform(counts.begin(), counts.end(), std::back_inserter(counts_nothing),
                   [](double count) { return count == 0; });
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    micro_batches[i].share = at::empty({}, at::kDouble);
    *micro_batches[i].share.mutable_data_ptr<double>() = counts[i] / total;
  }
  return counts_nothing;
}

}  // namespace ampd::amp
