#include "precision/cost/step_flops.h"

#include <string>
#include <vector>

#include "ampd/v1/worker.pb.h"
#include "base/status_macros.h"
#include "graph/cost/flops.h"
#include "graph/passes.h"
#include "precision/cost/peak_rates.h"
#include "precision/pass.h"

namespace ampd::precision {
namespace {

// Adds the FLOPs of one micro-batch of a program. The program trains the parameters whose names match the glob
// `trained`.
absl::Status AddFlops(const graph::Graph& train, const std::string& trained, const ResolvedPolicy& policy,
                      const v1::Device& device, int64_t batch_size, StepFlops* step) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph converted, ApplyPrecision(train, policy));
  const bool on_gpu = device.kind() == v1::Device::GPU;
  for (const auto& [format, flops] :
       graph::CountFlops(graph::WithoutDeadNodes(converted), batch_size, trained, on_gpu)) {
    const std::optional<double> rate = PeakFlopsPerSecond(device, format, policy.formats.tf32_matmul);
    step->flops += flops;
    step->seconds_at_peak = rate.has_value() && step->seconds_at_peak.has_value()
                                ? std::optional(*step->seconds_at_peak + flops / *rate)
                                : std::nullopt;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepFlops> CountStepFlops(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                         const v1::Device& device, int64_t batch_size, int num_micro_batches) {
  StepFlops step = {.seconds_at_peak = 0};
  if (programs.losses.empty()) {
    AMPD_RETURN_IF_ERROR(AddFlops(programs.train, "*", policy, device, batch_size, &step));
  }
  for (const graph::Loss& loss : programs.losses) {
    AMPD_ASSIGN_OR_RETURN(const graph::Graph train, graph::LossProgram(programs.train, loss.output));
    AMPD_RETURN_IF_ERROR(AddFlops(train, loss.parameters, policy, device, batch_size, &step));
  }
  step.flops *= num_micro_batches;
  if (step.seconds_at_peak.has_value()) {
    *step.seconds_at_peak *= num_micro_batches;
  }
  if (step.flops == 0) {
    step.seconds_at_peak = std::nullopt;
  }
  return step;
}

}  // namespace ampd::precision
