#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "precision/cost/memory.h"
#include "precision/policy.h"

namespace ampd::precision {

// The work of one training step.
struct StepFlops {
  // Floating-point operations of the products, forward and backward (graph/cost/flops.h).
  double flops = 0;
  // The seconds that the device needs for these operations if it computes each product at its peak rate for the format
  // of the product; nothing if ampd does not know a rate. This time, divided by the real time of the step, is the model
  // FLOPs utilization (MFU).
  std::optional<double> seconds_at_peak;
};

// Counts the work of a step of `num_micro_batches` micro-batches of `batch_size` samples each, in all phases. Returns
// the errors of the graph passes, which are INVALID_ARGUMENT or UNIMPLEMENTED.
absl::StatusOr<StepFlops> CountStepFlops(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                         const v1::Device& device, int64_t batch_size, int num_micro_batches);

}  // namespace ampd::precision
