#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/amp/engine.h"
#include "worker/data/sampler.h"
#include "worker/train/checkpoint_store.h"

namespace ampd::train {

// All that the next steps and the final report depend on: the engine's state and the place in the data.
struct TrainingState {
  int64_t step = 0;
  float train_loss = 0;  // of the last step
  data::Sampler::Cursor cursor;
  amp::EngineState engine;
};

// The state's scalars in a manifest's writing; floating-point numbers in hexadecimal, so that no bit is lost.
std::map<std::string, std::string> ScalarsOf(const TrainingState& state);

// Saves it. `content` brings identity and environment; the rest of it is filled in here.
absl::StatusOr<SavedCheckpoint> SaveState(const TrainingState& state, CheckpointContent content,
                                          CheckpointStore& store);

// The state of a verified checkpoint. CHECKPOINT_ERROR when something is missing in it.
absl::StatusOr<TrainingState> StateOf(const LoadedCheckpoint& checkpoint);

}  // namespace ampd::train
