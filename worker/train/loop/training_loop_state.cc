// Collects, loads and saves the training state.
#include <limits>
#include <utility>

#include "ATen/Version.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "data/data_file.h"
#include "google/protobuf/util/time_util.h"
#include "torch/headeronly/version.h"
#include "worker/train/checkpoint/tensor_file.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/training_loop.h"
#include "worker/train/plan/initial_weights.h"
#include "worker/train/plan/model_source.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

using v1::Event;

constexpr char kPrecision[] = "precision";  // Key in a checkpoint's environment.

absl::Status WithReason(const absl::Status& status, const char* reason) {
  return status.ok() ? status : Error(absl::StatusCode::kFailedPrecondition, reason, std::string(status.message()));
}

}  // namespace

// Makes the state before the first step.
absl::Status TrainingLoop::Begin() {
  AMPD_RETURN_IF_ERROR(MakeEngine());
  if (plan_.imported.has_value()) {
    AMPD_RETURN_IF_ERROR(ImportExportedState());
  }
  if (!plan_.initial_weights.empty()) {
    AMPD_RETURN_IF_ERROR(ImportInitialWeights());
  }
  return CheckBegun();
}

// Loads the parameters and buffers of the model's file.
absl::Status TrainingLoop::ImportExportedState() {
  amp::EngineState state = engine_->ExportState();
  // The file chooses the names. Fail now rather than at the first checkpoint.
  AMPD_RETURN_IF_ERROR(WithReason(TensorFile::Of(state.model).status(), "SPEC_ERROR"));
  AMPD_RETURN_IF_ERROR(WithReason(TensorFile::Of(state.optimizer).status(), "SPEC_ERROR"));
  int64_t num_bytes = 0;
  for (const auto& [name, tensor] : plan_.imported->state) {
    state.model.insert_or_assign(name, tensor);
    num_bytes += static_cast<int64_t>(tensor.nbytes());
  }
  const size_t num_tensors = plan_.imported->state.size();
  if (!MayRollBack()) {
    plan_.imported->state.clear();  // As large as the model.
  }
  AMPD_RETURN_IF_ERROR(WithReason(engine_->ImportState(state), "DATA_ERROR"));
  return telemetry_.Event(Event::WEIGHTS_LOADED, 0,
                          absl::StrCat("took ", num_tensors, " tensors from the exported model"),
                          {{"num_tensors", absl::StrCat(num_tensors)}, {"num_bytes", absl::StrCat(num_bytes)}});
}

// Makes an engine in the run's current precision.
absl::Status TrainingLoop::MakeEngine() {
  if (recovery_.raise != plan_.raise) {
    AMPD_ASSIGN_OR_RETURN(plan_.policy, ResolvePrecision(context_.start, plan_.model, recovery_.raise));
    plan_.raise = recovery_.raise;
  }
  engine_.reset();
  auto engine = amp::Engine::Create(plan_.model, plan_.policy, plan_.engine);
  AMPD_RETURN_IF_ERROR(WithReason(engine.status(), "SPEC_ERROR"));
  engine_ = *std::move(engine);
  canary_ = {};
  engine_->set_rate_factor(plateau_.has_value() ? plateau_->state().rate_factor : 1);
  return absl::OkStatus();
}

absl::Status TrainingLoop::ImportInitialWeights() {
  const v1::ModelSpec& model = context_.start.spec().model();
  amp::EngineState state = engine_->ExportState();
  const auto loaded =
      LoadInitialWeights(plan_.initial_weights, {model.initialize_anew().begin(), model.initialize_anew().end()},
                         state.model, plan_.imported.has_value() ? plan_.imported->names : graph::SavedNames());
  if (!loaded.ok()) {
    return data::DataError(NameOfInitialWeights(model), std::string(loaded.status().message()));
  }
  if (!MayRollBack()) {
    std::string().swap(plan_.initial_weights);  // As large as the model.
  }
  AMPD_RETURN_IF_ERROR(WithReason(engine_->ImportState(state), "DATA_ERROR"));
  return telemetry_.Event(
      Event::WEIGHTS_LOADED, 0,
      Describe(*loaded, model.has_initial_checkpoint() ? NameOfInitialWeights(model) : "a file"),
      {{"num_tensors", absl::StrCat(loaded->num_tensors)}, {"num_bytes", absl::StrCat(loaded->num_bytes)}});
}

absl::Status TrainingLoop::Restore(const v1::Checkpoint& checkpoint) {
  AMPD_ASSIGN_OR_RETURN(LoadedCheckpoint loaded,
                        context_.checkpoints.Load(checkpoint.path(), checkpoint.manifest_sha256()));
  AMPD_ASSIGN_OR_RETURN(TrainingState state, StateOf(loaded));
  if (loaded.job_id != context_.start.key().job_id()) {
    state.applied_order = 0;       // Orders are numbered within a job.
    state.best_eval_loss.reset();  // Refers to checkpoints that this job does not keep.
    state.owes_sample = false;
  }
  recovery_ = state.recovery;
  AMPD_RETURN_IF_ERROR(MakeEngine());
  DropScaleOfAnotherPrecision(loaded, state);
  AMPD_RETURN_IF_ERROR(Adopt(std::move(state)));
  const std::string raised = Describe(recovery_.raise);
  AMPD_RETURN_IF_ERROR(
      telemetry_.Event(Event::CHECKPOINT_LOADED, step_,
                       absl::StrCat("goes on from the checkpoint of step ", step_,
                                    raised.empty() ? "" : absl::StrCat(", ", raised, ", to which it was raised")),
                       {{"state_hash", loaded.state_hash}}));
  AMPD_RETURN_IF_ERROR(CheckRestored());
  return WarnIfElsewhere(loaded);
}

// A loss scale belongs to one format. The format changes if the policy leaves the choice to the device, or if the
// precision was raised since. The scale then starts as that of a new run, and orders for the earlier one lapse.
void TrainingLoop::DropScaleOfAnotherPrecision(const LoadedCheckpoint& checkpoint, TrainingState& state) const {
  const auto saved = checkpoint.environment.find(kPrecision);
  if (saved != checkpoint.environment.end() && saved->second != plan_.policy.preset) {
    state.engine.scaler = engine_->scaler().state();
  }
}

absl::Status TrainingLoop::Adopt(TrainingState state) {
  AMPD_RETURN_IF_ERROR(WithReason(engine_->ImportState(state.engine), "CHECKPOINT_ERROR"));
  if (!batcher_.Seek(state.cursor)) {
    return Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_ERROR",
                 "the checkpoint's place in the data does not fit the data");
  }
  if (plateau_.has_value()) {
    plateau_->Restore(state.plateau);
    engine_->set_rate_factor(state.plateau.rate_factor);
  }
  step_ = state.step;
  train_loss_ = state.train_loss;
  generator_loss_ = state.generator_loss;
  num_replays_ = state.num_replays;
  told_underflow_ = state.told_underflow;
  told_fp8_underflow_ = state.told_fp8_underflow;
  told_activations_ = state.told_activations;
  told_uneven_ = told_uneven_ || state.told_uneven;
  applied_order_ = state.applied_order;
  best_eval_loss_ = state.best_eval_loss;
  owes_evaluation_ = state.owes_evaluation;
  owes_sample_ = state.owes_sample;
  monitor_.Restore(std::move(state.monitor));
  return absl::OkStatus();
}

absl::Status TrainingLoop::WarnIfElsewhere(const LoadedCheckpoint& checkpoint) {
  std::string differences;
  for (const auto& [name, value] : Identity().environment) {
    const auto then = checkpoint.environment.find(name);
    const std::string before = then == checkpoint.environment.end() ? "?" : then->second;
    if (before != value) {
      absl::StrAppend(&differences, differences.empty() ? "" : ", ", name, " ", before, " -> ", value);
    }
  }
  return differences.empty() ? absl::OkStatus()
                             : telemetry_.Event(Event::NUMERICS_MAY_DIFFER, step_,
                                                absl::StrCat("numerics may differ from before: ", differences));
}

// Collects the state. Reuses the memory of `room` where possible (amp::Engine::ExportState).
TrainingState TrainingLoop::State(amp::EngineState room) const {
  return {.step = step_,
          .train_loss = train_loss_,
          .generator_loss = generator_loss_,
          .cursor = batcher_.cursor(),
          .num_replays = num_replays_,
          .told_underflow = told_underflow_,
          .told_fp8_underflow = told_fp8_underflow_,
          .told_activations = told_activations_,
          .told_uneven = told_uneven_,
          .applied_order = applied_order_,
          .monitor = monitor_.state(),
          .recovery = recovery_,
          .plateau = plateau_.has_value() ? plateau_->state() : amp::PlateauState(),
          .best_eval_loss = best_eval_loss_,
          .owes_evaluation = owes_evaluation_ || OwesEvaluation(),
          .owes_sample = owes_sample_,
          .engine = engine_->ExportState(std::move(room))};
}

CheckpointContent TrainingLoop::Identity() const {
  const v1::AttemptKey& key = context_.start.key();
  CheckpointContent content;
  content.job_id = key.job_id();
  content.attempt = key.attempt();
  // Only a digest: whoever may read checkpoints must not be able to act for the attempt.
  content.token = Sha256Hex(absl::StrCat("attempt ", key.token())).substr(0, 32);
  const v1::Device& device = context_.start.device();
  content.environment = {{"cpu_level", at::get_cpu_capability()},
                         {"device", NameOf(plan_.engine.device)},
                         {"emulates", plan_.policy.emulated() ? "yes" : "no"},
                         {"instruction_sets", absl::StrJoin(device.instruction_sets(), " ")},
                         {"libtorch", TORCH_VERSION},
                         {"num_threads", absl::StrCat(plan_.num_threads)},
                         {kPrecision, plan_.policy.preset},
                         {"processor", device.name()},
                         {"spec_digest", plan_.spec_digest}};
  if (plan_.imported.has_value()) {
    content.files.push_back({kGraphFile, {plan_.imported->json}});
  }
  return content;
}

// Whether the latest evaluation is of this step, has the lowest loss so far, and its checkpoint is therefore kept.
bool TrainingLoop::IsBest() const {
  return plan_.keep_best && last_eval_.has_value() && last_eval_->step() == step_ &&
         last_eval_->loss() < best_eval_loss_.value_or(std::numeric_limits<double>::infinity());
}

// Copies the state; the writer's thread does the rest.
absl::Status TrainingLoop::Checkpoint() {
  if (snapshot_step_ == step_) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(checkpoint_writer_.Wait());  // It reads the snapshot.
  // After a roll-back past damaged checkpoints, steps are run again. The server accepts an attempt's checkpoints only
  // in step order, so none is made until a later step.
  if (const auto newest = checkpoint_writer_.newest(); newest.has_value() && step_ <= newest->step()) {
    return absl::OkStatus();
  }
  if (IsBest()) {
    best_eval_loss_ = last_eval_->loss();
  }
  snapshot_ = State(std::move(snapshot_.engine));
  snapshot_step_ = step_;
  v1::Checkpoint checkpoint;
  checkpoint.set_attempt(context_.start.key().attempt());
  checkpoint.set_step(step_);
  if (last_eval_.has_value() && last_eval_->step() == step_) {
    checkpoint.set_eval_loss(last_eval_->loss());
  }
  return checkpoint_writer_.Begin(context_.outbox.last_sequence(), [this, checkpoint, identity = Identity()] {
    return WriteSnapshot(checkpoint, identity);
  });
}

// Runs on the writer's thread. Besides the snapshot it reads nothing that training writes.
absl::StatusOr<v1::Checkpoint> TrainingLoop::WriteSnapshot(v1::Checkpoint checkpoint, CheckpointContent identity) {
  AMPD_ASSIGN_OR_RETURN(const SavedCheckpoint saved, SaveState(snapshot_, std::move(identity), context_.checkpoints));
  checkpoint.set_path(saved.path);
  checkpoint.set_size_bytes(saved.size_bytes);
  checkpoint.set_manifest_sha256(saved.manifest_sha256);
  checkpoint.set_state_hash(saved.state_hash);
  *checkpoint.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(absl::Now()));
  LogLine(absl::StrFormat("step %d: checkpoint %s, %d bytes", checkpoint.step(), saved.path, saved.size_bytes));
  return checkpoint;
}

}  // namespace ampd::train
