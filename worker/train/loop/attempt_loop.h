#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "base/ipc/compute_lease.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/report/agent_link.h"
#include "worker/train/report/step_log.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {

// Runs one attempt to its end, or until the agent orders it to leave. TrainingLoop trains a model; PredictionLoop runs
// a model over data.
class AttemptLoop {
 public:
  // Everything that a loop uses. Every member outlives the loop.
  struct Context {
    const internal::StartAttempt& start;
    AgentLink& link;
    TelemetryOutbox& outbox;
    CheckpointStore& checkpoints;
    StepLog& step_log;
    const ComputeLease& lease;
    const std::string& scratch_folder;  // An existing folder for temporary files.
  };

  virtual ~AttemptLoop() = default;

  // Returns how the attempt ended, without last_sequence, which the caller sets. Every error has a reason of v1.Reason.
  // Does not catch LibTorch's exceptions.
  virtual absl::StatusOr<v1::Outcome> Run() = 0;

  // Waits until the checkpoint in progress, if any, is written. Such a checkpoint is valid even if the run failed.
  // REQUIRES: Run() has returned.
  virtual void AwaitCheckpoint() = 0;

  // Steps that are done.
  virtual int64_t step() const = 0;
  // Whether the initial state or checkpoint was loaded and the first step has begun.
  virtual bool has_begun() const = 0;
  virtual v1::FinalMetrics metrics() const = 0;
};

}  // namespace ampd::train
