#include "worker/train/training_state.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/train/tensor_file.h"

namespace ampd::train {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";

std::string Hexadecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

absl::Status Missing(const std::string& what) {
  return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR",
               absl::StrCat("the checkpoint has no usable ", what));
}

template <typename Integer>
absl::Status Take(const LoadedCheckpoint& checkpoint, const std::string& name, Integer& out) {
  const auto found = checkpoint.state.find(name);
  return found != checkpoint.state.end() && absl::SimpleAtoi(found->second, &out) ? absl::OkStatus() : Missing(name);
}

absl::Status TakeFloat(const LoadedCheckpoint& checkpoint, const std::string& name, float& out) {
  const auto found = checkpoint.state.find(name);
  if (found == checkpoint.state.end() || found->second.empty()) {
    return Missing(name);
  }
  char* end = nullptr;
  out = std::strtof(found->second.c_str(), &end);
  return *end == '\0' ? absl::OkStatus() : Missing(name);
}

absl::Status TakeTensors(const LoadedCheckpoint& checkpoint, const std::string& name, executor::TensorMap& out) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end()) {
    return Missing(name);
  }
  auto tensors = ReadTensors(found->second);
  if (!tensors.ok()) {
    return Missing(absl::StrCat(name, ": ", tensors.status().message()));
  }
  out = *std::move(tensors);
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, std::string> ScalarsOf(const TrainingState& state) {
  const amp::LossScalerState& scaler = state.engine.scaler;
  return {{"applied_steps", absl::StrCat(state.engine.applied_steps)},
          {"data.epoch", absl::StrCat(state.cursor.epoch)},
          {"data.position", absl::StrCat(state.cursor.position)},
          {"scaler.growth_interval", absl::StrCat(scaler.growth_interval)},
          {"scaler.growth_tracker", absl::StrCat(scaler.growth_tracker)},
          {"scaler.hysteresis_left", absl::StrCat(scaler.hysteresis_left)},
          {"scaler.scale", Hexadecimal(scaler.scale)},
          {"skipped_steps", absl::StrCat(state.engine.skipped_steps)},
          {"train_loss", Hexadecimal(state.train_loss)}};
}

absl::StatusOr<SavedCheckpoint> SaveState(const TrainingState& state, CheckpointContent content,
                                          CheckpointStore& store) {
  AMPD_ASSIGN_OR_RETURN(const TensorFile model, TensorFile::Of(state.engine.model));
  AMPD_ASSIGN_OR_RETURN(const TensorFile optimizer, TensorFile::Of(state.engine.optimizer));
  content.step = state.step;
  content.state = ScalarsOf(state);
  content.files = {{kModelFile, model.parts()}, {kOptimizerFile, optimizer.parts()}};
  return store.Save(content);
}

absl::StatusOr<TrainingState> StateOf(const LoadedCheckpoint& checkpoint) {
  TrainingState state;
  state.step = checkpoint.step;
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "data.epoch", state.cursor.epoch));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "data.position", state.cursor.position));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "applied_steps", state.engine.applied_steps));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "skipped_steps", state.engine.skipped_steps));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.growth_interval", state.engine.scaler.growth_interval));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.growth_tracker", state.engine.scaler.growth_tracker));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.hysteresis_left", state.engine.scaler.hysteresis_left));
  AMPD_RETURN_IF_ERROR(TakeFloat(checkpoint, "scaler.scale", state.engine.scaler.scale));
  AMPD_RETURN_IF_ERROR(TakeFloat(checkpoint, "train_loss", state.train_loss));
  AMPD_RETURN_IF_ERROR(TakeTensors(checkpoint, kModelFile, state.engine.model));
  AMPD_RETURN_IF_ERROR(TakeTensors(checkpoint, kOptimizerFile, state.engine.optimizer));
  return state;
}

}  // namespace ampd::train
