#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"
#include "worker/data/sampler.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/health/divergence_monitor.h"
#include "worker/train/health/precision_raise.h"

namespace ampd::train {

// What a run did about numbers that went wrong, over all attempts of the job.
struct Recovery {
  int num_rollbacks = 0;
  int num_lowerings = 0;  // raises that were taken back
  PrecisionRaise raise;
  int64_t num_quiet_steps = 0;  // in a row, since the raise or whatever was found wrong after it
  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// All that the next steps and the final report depend on: the engine's state, the place in the data, and what the
// monitor remembers.
struct TrainingState {
  int64_t step = 0;
  float train_loss = 0;                 // of the last step
  std::optional<float> generator_loss;  // of a GAN, whose train_loss is its discriminator's
  data::Sampler::Cursor cursor;
  int num_replays = 0;  // in a row, of the batch that comes next
  bool told_underflow = false;
  bool told_fp8_underflow = false;
  bool told_activations = false;
  bool told_uneven = false;    // that batches may count different numbers of labels
  uint64_t applied_order = 0;  // number of the last live change of the loss scale
  MonitorState monitor;
  Recovery recovery;
  amp::PlateauState plateau;
  std::optional<double> best_eval_loss;  // that has a checkpoint, where the best one is kept
  bool owes_evaluation = false;          // of its step: the plateau schedule has not seen it
  bool owes_sample = false;              // of its step: the attempt left while it drew
  amp::EngineState engine;
};

// The state's scalars in a manifest's writing; floating-point numbers in hexadecimal, so that no bit is lost.
std::map<std::string, std::string> ScalarsOf(const TrainingState& state);

// Saves it. `content` brings identity, environment and files that are no tensors; the rest of it is filled in here.
absl::StatusOr<SavedCheckpoint> SaveState(const TrainingState& state, CheckpointContent content,
                                          CheckpointStore& store);

// The state of a verified checkpoint, whose files of tensors are gone afterwards: each is as large as what is made of
// it. CHECKPOINT_ERROR when something is missing in it. A checkpoint from before there was a monitor, or a plateau
// schedule, begins with a fresh one.
absl::StatusOr<TrainingState> StateOf(LoadedCheckpoint& checkpoint);

}  // namespace ampd::train
