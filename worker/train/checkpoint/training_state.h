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
#include "worker/train/health/early_stopping.h"
#include "worker/train/health/recovery.h"

namespace ampd::train {

// Everything that the next steps and the final report depend on, such as the engine's state, the position in the data,
// and what the divergence monitor remembers.
struct TrainingState {
  int64_t step = 0;
  float train_loss = 0;  // Loss of the last step, or of an earlier one (Progress::RecordLosses).
  // The last loss of each phase, by the phase's name. Set only if steps have several phases; train_loss is then the
  // loss of the first phase.
  std::map<std::string, float> phase_losses;
  data::Sampler::Cursor cursor;
  int num_replays = 0;  // Replays of the next step's batch, including the one in that step.
  bool underflow_reported = false;
  bool fp8_underflow_reported = false;
  bool activations_reported = false;  // A fault of the forward pass that leaves the loss finite.
  bool not_finite_reported = false;   // A fault of the forward pass that makes the loss infinite or NaN.
  bool uneven_reported = false;       // It was reported that batches may count different numbers of labels.
  uint64_t applied_order = 0;         // Number of the last live change of the loss scale.
  MonitorState monitor;
  RecoveryState recovery;
  amp::PlateauState plateau;
  std::optional<double> best_eval_loss;  // Lowest evaluation loss of a saved checkpoint. Only if the best is kept.
  std::optional<EarlyStoppingState> early_stopping;  // Unset if the job does not stop early.
  // `step` must still be evaluated, for the plateau schedule and the early stopping.
  bool evaluation_pending = false;
  bool sample_pending = false;  // An order to leave came before the sample of `step` was drawn.
  amp::EngineState engine;
};

// The state's scalars, as a manifest stores them. Floating-point numbers are hexadecimal, so that no bit is lost.
std::map<std::string, std::string> ScalarsOf(const TrainingState& state);

// Saves the state as a checkpoint. The caller sets the identity, the environment and any files without tensors in
// `content`; SaveState adds the scalars and the tensor files.
absl::StatusOr<SavedCheckpoint> SaveState(const TrainingState& state, CheckpointContent content,
                                          CheckpointStore& store);

// Builds the state from a verified checkpoint. Frees the content of the tensor files that `checkpoint` holds in memory,
// because each is as large as the tensors made from it; the files on disk stay. CHECKPOINT_ERROR if something is
// missing. If the checkpoint lacks the state of the monitor, the plateau schedule or the early stopping, that state is
// the initial one.
absl::StatusOr<TrainingState> StateOf(LoadedCheckpoint& checkpoint);

}  // namespace ampd::train
