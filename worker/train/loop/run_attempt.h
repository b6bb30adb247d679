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

// Opens the device that --device names, loads LibTorch's libraries and runs a first op on the device, so that a warm
// trainer can start an attempt without this delay. Selects deterministic algorithms and starts to count the memory of
// tensors. Call once, before RunAttempt. Returns the errors of OpenComputeDevice; pass the result to RunAttempt, which
// reports an error.
absl::StatusOr<amp::ComputeDevice> WarmUp(const std::string& device_id);

// Options of the trainer process, the same for any attempt.
struct TrainerOptions {
  StepLog& step_log;
  const ComputeLease& lease;
  std::string scratch_folder;  // An existing folder for temporary files.
  // Maximum number of steps that may begin before the results of an earlier step are read, if the engine allows it.
  // Unset: 1 on a GPU, so that the GPU does not wait for the host, and 0 on a CPU.
  std::optional<int> steps_ahead = {};
  // Whether steps on a GPU are recorded in a CUDA graph and replayed.
  bool cuda_graph = true;
};

// Runs the attempt to its end on the device that WarmUp returned, and returns how it ended. If the checkpoint from
// which the attempt resumes is damaged, uses the newest undamaged one of start.older_checkpoints. Throws nothing. Only
// this function turns exceptions of LibTorch and the standard library into reasons.
v1::Outcome RunAttempt(internal::StartAttempt start, const absl::StatusOr<amp::ComputeDevice>& device, AgentLink& link,
                       TelemetryOutbox& outbox, const TrainerOptions& options);

// Returns the reason for an exception of LibTorch:
// * OUT_OF_MEMORY: memory ran out on any device.
// * DEVICE_ERROR: a fault of a GPU or its libraries.
// * DATA_ERROR: an index is out of an op's range.
// * SPEC_ERROR: an op can't compute the model's values (executor::OpError), or a label count is wrong
//   (amp::LabelCountError).
// * INTERNAL: anything else.
v1::Reason::Code ReasonForException(const c10::Error& error);

// The reason in the error's ErrorInfo; INTERNAL if it is not a v1.Reason.
v1::Reason::Code ReasonFor(const absl::Status& status);

}  // namespace ampd::train
