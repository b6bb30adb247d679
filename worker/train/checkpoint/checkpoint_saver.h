#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "worker/amp/engine.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/checkpoint/checkpoint_writer.h"
#include "worker/train/checkpoint/training_state.h"

namespace ampd::train {

// Makes an attempt's checkpoints, and finds the one to which it rolls back. Saving costs the caller a copy of the state
// in memory; CheckpointWriter writes that copy on its own thread. The next checkpoint reuses the memory of the copy.
// Single-threaded; owner: the training loop.
class CheckpointSaver {
 public:
  // Returns a copy of the training state. Reuses the memory of `reuse`, an earlier copy, where possible.
  using Capture = absl::FunctionRef<TrainingState(amp::EngineState reuse)>;

  // The state to which a roll-back returns.
  struct RollBackSource {
    std::optional<LoadedCheckpoint> checkpoint;  // nullopt: the start of the job.
    std::string path;                            // Path of `checkpoint`.
    absl::Status damage;                         // Why the newest checkpoint is not used; OK if it is used.
  };

  // `store` outlives the saver. `earlier`: checkpoints of earlier attempts, newest first, to which this attempt may
  // roll back; empty if the attempt starts training from the beginning. `announce` runs on the checkpoint writer's
  // thread.
  CheckpointSaver(CheckpointStore& store, std::vector<v1::Checkpoint> earlier, CheckpointWriter::Announce announce)
      : store_(store), earlier_(std::move(earlier)), writer_(std::move(announce)) {}

  // Waits until the previous checkpoint is written, then captures the state and starts to write the new checkpoint.
  // The caller sets the attempt, the step and, if the step was evaluated, the loss of `checkpoint`; Save sets its
  // other fields. Does nothing if the attempt already saved a checkpoint of this step or a later one. That happens
  // when a roll-back past damaged checkpoints repeats steps; the server accepts an attempt's checkpoints only in step
  // order.
  absl::Status Save(v1::Checkpoint checkpoint, CheckpointContent identity, uint64_t after_sequence, Capture capture);

  // Check, Wait, Join and newest forward to the functions of CheckpointWriter with the same names.
  absl::Status Check() const { return writer_.Check(); }
  absl::Status Wait() { return writer_.Wait(); }
  void Join() { writer_.Join(); }
  std::optional<v1::Checkpoint> newest() const { return writer_.newest(); }

  // Waits for the checkpoint that is being written, frees the copy of the state, and loads the newest undamaged
  // checkpoint. If no undamaged checkpoint exists, an attempt without `earlier` checkpoints rolls back to the start of
  // the job; any other attempt gets CHECKPOINT_ERROR.
  absl::StatusOr<RollBackSource> LoadForRollBack();

 private:
  // `begin`: when saving began.
  absl::StatusOr<v1::Checkpoint> Write(v1::Checkpoint checkpoint, CheckpointContent identity,
                                       std::chrono::steady_clock::time_point begin) const;

  CheckpointStore& store_;
  const std::vector<v1::Checkpoint> earlier_;
  std::optional<int64_t> captured_step_;  // Step of the last copy of the state; its checkpoint may not be written yet.
  TrainingState snapshot_;                // The copy that the checkpoint is written from.
  CheckpointWriter writer_;               // Last member, because its thread reads the members above.
};

}  // namespace ampd::train
