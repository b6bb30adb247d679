#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "base/ipc/compute_lease.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/train/report/agent_link.h"
#include "worker/train/report/step_log.h"

namespace c10 {
class Error;
}  // namespace c10

namespace ampd::train {

// Opens the device that --device named, loads LibTorch's libraries and runs the first op there, with deterministic
// algorithms and counted memory, so that a warm trainer starts an attempt without any of that. Call once, before
// everything else here. When the device can't be used (OpenComputeDevice's errors), RunAttempt tells so.
absl::StatusOr<amp::ComputeDevice> WarmUp(const std::string& device_id);

// How a trainer runs, whatever the attempt.
struct TrainerOptions {
  StepLog& step_log;
  const ComputeLease& lease;
  // Steps that are begun before the numbers of another are read, where the engine allows it. Unset: 1 on a GPU, which
  // need not wait for the host then, and 0 on a CPU.
  std::optional<int> steps_ahead = {};
  // Whether steps on a GPU are recorded in a CUDA graph and replayed.
  bool cuda_graph = true;
};

// Runs the attempt to its end on what WarmUp gave and says how it ended. The one place where exceptions of LibTorch and
// of the standard library become typed reasons; none leaves it. A checkpoint that is damaged gives way to the newest
// sound one of start.older_checkpoints.
v1::Outcome RunAttempt(internal::StartAttempt start, const absl::StatusOr<amp::ComputeDevice>& device, AgentLink& link,
                       TelemetryOutbox& outbox, const TrainerOptions& options);

// OUT_OF_MEMORY, on whichever device; DEVICE_ERROR for a fault of a GPU or its libraries; DATA_ERROR for an index
// beyond what an op indexes; SPEC_ERROR for an op that can't compute what the model gives it (executor::OpError);
// INTERNAL for anything else.
v1::Reason ReasonForException(const c10::Error& error);

// The reason of an error's ErrorInfo; INTERNAL for one that is not a v1.Reason.
v1::Reason ReasonFor(const absl::Status& status);

}  // namespace ampd::train
