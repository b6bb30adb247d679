#include "worker/train/checkpoint/training_state.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::train {
namespace {

constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kFp8File[] = "fp8.safetensors";  // In checkpoints of FP8 runs only.

// Keys of the state in a checkpoint's manifest. They are part of the checkpoint format and of the state's hash, so
// they can't change. If steps have several phases, the keys of a phase are made from kPhasePrefix, the phase's name
// and a suffix: "phase.generator.applied_steps" and "phase.generator.loss".
constexpr char kPhasePrefix[] = "phase.";
constexpr char kPhaseSuffix[] = ".applied_steps";
constexpr char kLossSuffix[] = ".loss";
constexpr char kUnderflowReported[] = "told_underflow";
constexpr char kFp8UnderflowReported[] = "told_fp8_underflow";
constexpr char kActivationsReported[] = "told_activations";
constexpr char kNotFiniteReported[] = "told_not_finite";
constexpr char kUnevenReported[] = "told_uneven";
constexpr char kEvaluationPending[] = "owes_evaluation";
constexpr char kSamplePending[] = "owes_sample";
constexpr char kMonitorReported[] = "monitor.told";
constexpr char kStopBest[] = "early_stopping.best";
constexpr char kStopBestStep[] = "early_stopping.best_step";
constexpr char kStopBadEvals[] = "early_stopping.bad_evals";

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

// Reads a floating-point number that Hexadecimal wrote.
template <typename Real>
absl::Status TakeReal(const LoadedCheckpoint& checkpoint, const std::string& name, Real& out) {
  const auto found = checkpoint.state.find(name);
  if (found == checkpoint.state.end() || found->second.empty()) {
    return Missing(name);
  }
  char* end = nullptr;
  out = static_cast<Real>(std::strtod(found->second.c_str(), &end));
  return *end == '\0' ? absl::OkStatus() : Missing(name);
}

absl::Status TakeText(const LoadedCheckpoint& checkpoint, const std::string& name, std::string& out) {
  const auto found = checkpoint.state.find(name);
  if (found == checkpoint.state.end()) {
    return Missing(name);
  }
  out = found->second;
  return absl::OkStatus();
}

// Splits a list whose elements contain no commas. An empty text is an empty list.
std::vector<std::string> Split(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : absl::StrSplit(text, ',');
}

std::string JoinHexadecimal(const std::vector<float>& values) {
  return absl::StrJoin(values, ",", [](std::string* out, float value) { out->append(Hexadecimal(value)); });
}

std::string JoinFlags(const std::vector<bool>& flags) {
  std::string text;
  for (const bool flag : flags) {
    text.push_back(flag ? '1' : '0');
  }
  return text;
}

// The divergence monitor's counters, each with its key in a checkpoint's manifest. The functions that read and write a
// manifest share this list.
std::vector<std::pair<std::string, int*>> Counters(MonitorState& monitor) {
  return {{"monitor.first", &monitor.num_first},
          {"monitor.not_finite", &monitor.num_not_finite},
          {"monitor.stuck", &monitor.num_stuck},
          {"monitor.spiking", &monitor.num_spiking},
          {"monitor.diverged", &monitor.num_diverged},
          {"monitor.range_quiet", &monitor.range_quiet_steps},
          {"monitor.spike_quiet", &monitor.spike_quiet_steps},
          {"monitor.skips_quiet", &monitor.skips_quiet_steps}};
}

void AddMonitor(MonitorState monitor, std::map<std::string, std::string>& scalars) {
  for (const auto& [name, counter] : Counters(monitor)) {
    scalars[name] = absl::StrCat(*counter);
  }
  scalars["monitor.first_level"] = Hexadecimal(monitor.first_level);
  scalars["monitor.losses"] = JoinHexadecimal(monitor.losses);
  scalars["monitor.skips"] = JoinFlags(monitor.skips);
  scalars[kMonitorReported] = JoinFlags({monitor.not_finite_reported, monitor.floor_reported});
}

absl::Status TakeMonitor(const LoadedCheckpoint& checkpoint, MonitorState& monitor) {
  for (const auto& [name, counter] : Counters(monitor)) {
    AMPD_RETURN_IF_ERROR(Take(checkpoint, name, *counter));
  }
  AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "monitor.first_level", monitor.first_level));
  std::string losses;
  std::string skips;
  std::string reported;
  AMPD_RETURN_IF_ERROR(TakeText(checkpoint, "monitor.losses", losses));
  AMPD_RETURN_IF_ERROR(TakeText(checkpoint, "monitor.skips", skips));
  AMPD_RETURN_IF_ERROR(TakeText(checkpoint, kMonitorReported, reported));
  for (const std::string& loss : Split(losses)) {
    monitor.losses.push_back(std::strtof(loss.c_str(), nullptr));
  }
  for (const char flag : skips) {
    monitor.skips.push_back(flag == '1');
  }
  if (reported.size() != 2) {
    return Missing(kMonitorReported);
  }
  monitor.not_finite_reported = reported[0] == '1';
  monitor.floor_reported = reported[1] == '1';
  return absl::OkStatus();
}

absl::Status TakeRecovery(const LoadedCheckpoint& checkpoint, RecoveryState& recovery) {
  std::string modules;
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "recovery.rollbacks", recovery.num_rollbacks));
  AMPD_RETURN_IF_ERROR(TakeText(checkpoint, "recovery.preset", recovery.raise.preset));
  AMPD_RETURN_IF_ERROR(TakeText(checkpoint, "recovery.fp32_modules", modules));
  recovery.raise.fp32_modules = Split(modules);
  if (const auto found = checkpoint.state.find("recovery.bf16_modules"); found != checkpoint.state.end()) {
    recovery.raise.bf16_modules = Split(found->second);
  }
  if (!checkpoint.state.contains("recovery.lowerings")) {
    return absl::OkStatus();  // An older version wrote the checkpoint, without these two numbers.
  }
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "recovery.lowerings", recovery.num_lowerings));
  return Take(checkpoint, "recovery.quiet_steps", recovery.num_quiet_steps);
}

absl::Status TakePhases(const LoadedCheckpoint& checkpoint, std::map<std::string, int64_t>& applied_by_phase) {
  for (const auto& [name, text] : checkpoint.state) {
    absl::string_view phase = name;
    if (absl::ConsumePrefix(&phase, kPhasePrefix) && absl::ConsumeSuffix(&phase, kPhaseSuffix)) {
      AMPD_RETURN_IF_ERROR(Take(checkpoint, name, applied_by_phase[std::string(phase)]));
    }
  }
  return absl::OkStatus();
}

absl::Status TakePhaseLosses(const LoadedCheckpoint& checkpoint, TrainingState* state) {
  for (const auto& [name, text] : checkpoint.state) {
    absl::string_view phase = name;
    if (absl::ConsumePrefix(&phase, kPhasePrefix) && absl::ConsumeSuffix(&phase, kLossSuffix)) {
      AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, name, state->phase_losses[std::string(phase)]));
    }
  }
  // Earlier versions stored a GAN's losses under "generator_loss" and "train_loss" (the discriminator's).
  if (checkpoint.state.contains("generator_loss")) {
    AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "generator_loss", state->phase_losses["generator"]));
    state->phase_losses["discriminator"] = state->train_loss;
  }
  return absl::OkStatus();
}

absl::Status TakePlateau(const LoadedCheckpoint& checkpoint, amp::PlateauState& plateau) {
  AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "plateau.best_loss", plateau.best_loss));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "plateau.bad_evals", plateau.num_bad_evals));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "plateau.cooldown_left", plateau.cooldown_left));
  return TakeReal(checkpoint, "plateau.rate_factor", plateau.rate_factor);
}

void AddEarlyStopping(const EarlyStoppingState& early_stopping, std::map<std::string, std::string>& scalars) {
  scalars[kStopBadEvals] = absl::StrCat(early_stopping.num_bad_evals);
  if (early_stopping.best.has_value()) {
    scalars[kStopBest] = Hexadecimal(*early_stopping.best);
    scalars[kStopBestStep] = absl::StrCat(early_stopping.best_step);
  }
}

absl::Status TakeEarlyStopping(const LoadedCheckpoint& checkpoint, EarlyStoppingState& early_stopping) {
  if (checkpoint.state.contains(kStopBest)) {
    AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, kStopBest, early_stopping.best.emplace()));
    AMPD_RETURN_IF_ERROR(Take(checkpoint, kStopBestStep, early_stopping.best_step));
  }
  return Take(checkpoint, kStopBadEvals, early_stopping.num_bad_evals);
}

absl::Status TakeTensors(LoadedCheckpoint& checkpoint, const std::string& name, executor::TensorMap& out) {
  const auto found = checkpoint.files.find(name);
  if (found == checkpoint.files.end()) {
    return Missing(name);
  }
  auto tensors = ReadTensors(found->second);
  if (!tensors.ok()) {
    return Missing(absl::StrCat(name, ": ", tensors.status().message()));
  }
  out = *std::move(tensors);
  checkpoint.files.erase(found);
  return absl::OkStatus();
}

}  // namespace

std::map<std::string, std::string> ScalarsOf(const TrainingState& state) {
  const amp::LossScalerState& scaler = state.engine.scaler;
  std::map<std::string, std::string> scalars = {
      {"applied_steps", absl::StrCat(state.engine.applied_steps)},
      {"data.epoch", absl::StrCat(state.cursor.epoch)},
      {"data.position", absl::StrCat(state.cursor.position)},
      {"scaler.growth_interval", absl::StrCat(scaler.growth_interval)},
      {"scaler.growth_tracker", absl::StrCat(scaler.growth_tracker)},
      {"scaler.hysteresis_left", absl::StrCat(scaler.hysteresis_left)},
      {"scaler.scale", Hexadecimal(scaler.scale)},
      {"skipped_steps", absl::StrCat(state.engine.skipped_steps)},
      {"num_replays", absl::StrCat(state.num_replays)},
      {"plateau.bad_evals", absl::StrCat(state.plateau.num_bad_evals)},
      {"plateau.best_loss", Hexadecimal(state.plateau.best_loss)},
      {"plateau.cooldown_left", absl::StrCat(state.plateau.cooldown_left)},
      {"plateau.rate_factor", Hexadecimal(state.plateau.rate_factor)},
      {"recovery.fp32_modules", absl::StrJoin(state.recovery.raise.fp32_modules, ",")},
      {"recovery.lowerings", absl::StrCat(state.recovery.num_lowerings)},
      {"recovery.preset", state.recovery.raise.preset},
      {"recovery.quiet_steps", absl::StrCat(state.recovery.num_quiet_steps)},
      {"recovery.rollbacks", absl::StrCat(state.recovery.num_rollbacks)},
      {kUnderflowReported, absl::StrCat(state.underflow_reported ? 1 : 0)},
      {"train_loss", Hexadecimal(state.train_loss)}};
  // These keys are written only if the state has a value for them. So a state without such values has the same hash as
  // in versions of the trainer that did not have these keys.
  if (!state.recovery.raise.bf16_modules.empty()) {
    scalars["recovery.bf16_modules"] = absl::StrJoin(state.recovery.raise.bf16_modules, ",");
  }
  if (state.fp8_underflow_reported) {
    scalars[kFp8UnderflowReported] = "1";
  }
  if (state.activations_reported) {
    scalars[kActivationsReported] = "1";
  }
  if (state.not_finite_reported) {
    scalars[kNotFiniteReported] = "1";
  }
  if (state.uneven_reported) {
    scalars[kUnevenReported] = "1";
  }
  if (state.best_eval_loss.has_value()) {
    scalars["best_eval_loss"] = Hexadecimal(*state.best_eval_loss);
  }
  if (state.early_stopping.has_value()) {
    AddEarlyStopping(*state.early_stopping, scalars);
  }
  for (const auto& [phase, loss] : state.phase_losses) {
    scalars[absl::StrCat(kPhasePrefix, phase, kLossSuffix)] = Hexadecimal(loss);
  }
  if (state.evaluation_pending) {
    scalars[kEvaluationPending] = "1";
  }
  if (state.sample_pending) {
    scalars[kSamplePending] = "1";
  }
  if (state.applied_order > 0) {
    scalars["scaler.applied_order"] = absl::StrCat(state.applied_order);
  }
  for (const auto& [phase, applied] : state.engine.applied_by_phase) {
    scalars[absl::StrCat(kPhasePrefix, phase, kPhaseSuffix)] = absl::StrCat(applied);
  }
  AddMonitor(state.monitor, scalars);
  return scalars;
}

absl::StatusOr<SavedCheckpoint> SaveState(const TrainingState& state, CheckpointContent content,
                                          CheckpointStore& store) {
  AMPD_ASSIGN_OR_RETURN(const TensorFile model, TensorFile::Of(state.engine.model));
  AMPD_ASSIGN_OR_RETURN(const TensorFile optimizer, TensorFile::Of(state.engine.optimizer));
  content.step = state.step;
  content.state = ScalarsOf(state);
  content.files.push_back({kModelFile, model.parts()});
  content.files.push_back({kOptimizerFile, optimizer.parts()});
  AMPD_ASSIGN_OR_RETURN(const TensorFile fp8, TensorFile::Of(state.engine.fp8));
  if (!state.engine.fp8.empty()) {
    content.files.push_back({kFp8File, fp8.parts()});
  }
  return store.Save(content);
}

absl::StatusOr<TrainingState> StateOf(LoadedCheckpoint& checkpoint) {
  TrainingState state;
  state.step = checkpoint.step;
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "data.epoch", state.cursor.epoch));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "data.position", state.cursor.position));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "applied_steps", state.engine.applied_steps));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "skipped_steps", state.engine.skipped_steps));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.growth_interval", state.engine.scaler.growth_interval));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.growth_tracker", state.engine.scaler.growth_tracker));
  AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.hysteresis_left", state.engine.scaler.hysteresis_left));
  AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "scaler.scale", state.engine.scaler.scale));
  AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "train_loss", state.train_loss));
  AMPD_RETURN_IF_ERROR(TakePhases(checkpoint, state.engine.applied_by_phase));
  if (checkpoint.state.contains("num_replays")) {
    AMPD_RETURN_IF_ERROR(Take(checkpoint, "num_replays", state.num_replays));
    AMPD_RETURN_IF_ERROR(TakeMonitor(checkpoint, state.monitor));
    AMPD_RETURN_IF_ERROR(TakeRecovery(checkpoint, state.recovery));
  }
  if (checkpoint.state.contains(kUnderflowReported)) {
    int reported = 0;
    AMPD_RETURN_IF_ERROR(Take(checkpoint, kUnderflowReported, reported));
    state.underflow_reported = reported != 0;
  }
  state.fp8_underflow_reported = checkpoint.state.contains(kFp8UnderflowReported);
  // In checkpoints of earlier versions, kActivationsReported stands for faults of every kind. A run that resumes from
  // such a checkpoint may report the same non-finite number again, which does no harm.
  state.activations_reported = checkpoint.state.contains(kActivationsReported);
  state.not_finite_reported = checkpoint.state.contains(kNotFiniteReported);
  state.uneven_reported = checkpoint.state.contains(kUnevenReported);
  if (checkpoint.state.contains("scaler.applied_order")) {
    AMPD_RETURN_IF_ERROR(Take(checkpoint, "scaler.applied_order", state.applied_order));
  }
  if (checkpoint.state.contains("best_eval_loss")) {
    AMPD_RETURN_IF_ERROR(TakeReal(checkpoint, "best_eval_loss", state.best_eval_loss.emplace()));
  }
  if (checkpoint.state.contains(kStopBadEvals)) {
    AMPD_RETURN_IF_ERROR(TakeEarlyStopping(checkpoint, state.early_stopping.emplace()));
  }
  AMPD_RETURN_IF_ERROR(TakePhaseLosses(checkpoint, &state));
  state.evaluation_pending = checkpoint.state.contains(kEvaluationPending);
  state.sample_pending = checkpoint.state.contains(kSamplePending);
  if (checkpoint.state.contains("plateau.best_loss")) {
    AMPD_RETURN_IF_ERROR(TakePlateau(checkpoint, state.plateau));
  }
  AMPD_RETURN_IF_ERROR(TakeTensors(checkpoint, kModelFile, state.engine.model));
  AMPD_RETURN_IF_ERROR(TakeTensors(checkpoint, kOptimizerFile, state.engine.optimizer));
  if (checkpoint.files.contains(kFp8File)) {
    AMPD_RETURN_IF_ERROR(TakeTensors(checkpoint, kFp8File, state.engine.fp8));
  }
  return state;
}

}  // namespace ampd::train
