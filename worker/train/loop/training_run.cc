#include "worker/train/loop/training_run.h"

#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "ATen/Version.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "precision/cost/memory.h"
#include "torch/headeronly/version.h"
#include "worker/data/noise.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/attempt_error.h"
#include "worker/train/loop/initial_state.h"
#include "worker/train/loop/periodic.h"

namespace ampd::train {
namespace {

using v1::Event;

constexpr char kPrecision[] = "precision";  // Key in a checkpoint's environment.

// Resets the loss scale if the checkpoint was made in another precision, because a loss scale suits only one format.
// The precision can differ because the policy lets the device decide, or because the precision was raised after the
// checkpoint. This also discards scales that a user ordered for the other format.
void DropScaleOfAnotherPrecision(const LoadedCheckpoint& checkpoint, const std::string& preset, amp::Engine& engine,
                                 TrainingState& state) {
  const auto saved = checkpoint.environment.find(kPrecision);
  if (saved != checkpoint.environment.end() && saved->second != preset) {
    state.engine.scaler = engine.scaler().state();
  }
}

// The part of the live loss-scale settings that was ordered after the order with the number `applied`.
v1::LossScaleOrder SettingsAfter(uint64_t applied, const v1::LiveLossScale& settings) {
  v1::LossScaleOrder newer;
  if (settings.scale_number() > applied) {
    newer.set_scale(settings.scale());
  }
  if (settings.growth_interval_number() > applied) {
    newer.set_growth_interval(settings.growth_interval());
  }
  return newer;
}

// Whether a checkpoint made now, after the last step, lacks an evaluation that the plateau schedule or the early
// stopping needs. If a longer run resumes from the checkpoint, it must make that evaluation first.
bool LacksEvaluation(const AttemptPlan& plan, int64_t step) {
  return (plan.plateau.has_value() || plan.early_stopping.has_value()) && plan.eval.has_value() &&
         step == plan.total_steps && IsDue(step, plan.eval_every_steps);
}

// The floating-point operations of a step under the plan's policy.
absl::StatusOr<precision::StepFlops> FlopsOf(const AttemptPlan& plan, const v1::Device& device) {
  AMPD_ASSIGN_OR_RETURN(const auto programs, precision::TrainedPrograms::Of(plan.model, /*evaluates=*/false));
  return precision::CountStepFlops(programs, plan.policy, device, plan.sampler.num_in_batch() / plan.num_micro_batches,
                                   static_cast<int>(plan.num_micro_batches));
}

}  // namespace

void Progress::RecordLosses(const amp::StepResult& result, bool has_trained) {
  const auto counts = [has_trained](const amp::PhaseResult& phase) {
    return std::isfinite(phase.loss) || !phase.skipped || !has_trained;
  };
  if (const amp::PhaseResult& first = result.phases.front(); counts(first)) {
    train_loss = first.loss;
  }
  for (const amp::PhaseResult& phase : result.phases) {
    if (result.phases.size() > 1 && counts(phase)) {
      phase_losses[phase.phase] = phase.loss;
    }
  }
}

TrainingRun::TrainingRun(AttemptPlan plan, const internal::StartAttempt& start, TelemetryWriter& telemetry)
    : plan_(std::move(plan)),
      start_(start),
      telemetry_(telemetry),
      batcher_(
          plan_.sampler,
          [this](const std::vector<int64_t>& indices, int64_t epoch, data::Dataset::Samples reuse) {
            return Gather(indices, epoch, std::move(reuse));
          },
          {.batches =
               static_cast<size_t>(precision::BatchesAhead(Gather({0}, 0, {}).bytes() * plan_.sampler.num_in_batch())),
           .threads =
               static_cast<size_t>(precision::GatherThreads(static_cast<int>(std::thread::hardware_concurrency())))}),
      uneven_batches_(plan_.model),
      recovery_({.on_divergence = plan_.on_divergence,
                 .lower_again_after_steps = plan_.lower_again_after_steps,
                 .replay_skipped = plan_.replay_skipped,
                 .device = start.device()}),
      reports_(telemetry) {
  if (plan_.plateau.has_value()) {
    plateau_.emplace(*plan_.plateau, plan_.engine.optimizer.learning_rate);
  }
  if (plan_.early_stopping.has_value()) {
    early_stopping_.emplace(*plan_.early_stopping);
  }
}

// Makes a batch. Runs on the batcher's threads, so it reads only data that training never changes.
data::Dataset::Samples TrainingRun::Gather(const std::vector<int64_t>& indices, int64_t epoch,
                                           data::Dataset::Samples reuse) const {
  using Pixels = data::Dataset::Pixels;
  const Pixels pixels = plan_.engine.pixel_scales.defined() ? Pixels::kBytes : Pixels::kNumbers;
  const at::Tensor old_noise = plan_.noise.shape.has_value() ? reuse.others["noise"] : at::Tensor();
  data::Dataset::Samples samples = plan_.train.Get(indices, plan_.augmentation, epoch, pixels, std::move(reuse));
  if (plan_.noise.shape.has_value()) {
    samples.others["noise"] = data::NoiseOf(plan_.noise.seed, epoch, indices, *plan_.noise.shape, old_noise);
  }
  return samples;
}

absl::Status TrainingRun::Begin() {
  AMPD_RETURN_IF_ERROR(MakeEngine());
  return LoadInitialState(start_.spec().model(), recovery_.may_roll_back(), plan_, *engine_, telemetry_);
}

// Makes an engine in the run's current precision.
absl::Status TrainingRun::MakeEngine() {
  const PrecisionRaise& raise = recovery_.state().raise;
  if (raise != plan_.raise) {
    AMPD_ASSIGN_OR_RETURN(plan_.policy, ResolvePrecision(start_, plan_.model, raise));
    plan_.raise = raise;
  }
  engine_.reset();
  auto engine = amp::Engine::Create(plan_.model, plan_.policy, plan_.engine);
  AMPD_RETURN_IF_ERROR(WithReason(engine.status(), v1::Reason::SPEC_ERROR));
  engine_ = *std::move(engine);
  AMPD_ASSIGN_OR_RETURN(flops_, FlopsOf(plan_, start_.device()));
  reports_.ForgetCanary();
  engine_->set_rate_factor(plateau_.has_value() ? plateau_->state().rate_factor : 1);
  return absl::OkStatus();
}

absl::Status TrainingRun::Resume(LoadedCheckpoint& checkpoint) {
  AMPD_ASSIGN_OR_RETURN(TrainingState state, StateOf(checkpoint));
  if (checkpoint.job_id != start_.key().job_id()) {
    state.applied_order = 0;       // The number of another job's order; each job has its own numbers.
    state.best_eval_loss.reset();  // That checkpoint belongs to another job, which may delete it.
    state.sample_pending = false;
  }
  recovery_.Restore(state.recovery);
  AMPD_RETURN_IF_ERROR(MakeEngine());
  DropScaleOfAnotherPrecision(checkpoint, plan_.policy.preset, *engine_, state);
  AMPD_RETURN_IF_ERROR(LoadState(std::move(state)));
  const std::string raised = Describe(recovery_.state().raise);
  return telemetry_.Event(
      Event::CHECKPOINT_LOADED, step(),
      absl::StrCat("training resumes from the checkpoint of step ", step(),
                   raised.empty()
                       ? ""
                       : absl::StrCat("; the precision was raised before that step, so training continues ", raised)),
      {{"state_hash", checkpoint.state_hash}});
}

absl::Status TrainingRun::ReturnTo(LoadedCheckpoint& checkpoint) {
  AMPD_ASSIGN_OR_RETURN(TrainingState state, StateOf(checkpoint));
  AMPD_RETURN_IF_ERROR(MakeEngine());
  DropScaleOfAnotherPrecision(checkpoint, plan_.policy.preset, *engine_, state);
  state.applied_order = progress_.applied_order;  // Orders after the checkpoint are undone and not repeated.
  state.sample_pending = false;                   // This attempt drew that sample before its first step.
  if (checkpoint.job_id != start_.key().job_id()) {
    state.best_eval_loss.reset();  // That checkpoint belongs to another job, which may delete it.
  }
  return LoadState(std::move(state));
}

absl::Status TrainingRun::ReturnToStart() {
  if (plateau_.has_value()) {
    plateau_->Restore({});
  }
  if (early_stopping_.has_value()) {
    early_stopping_->Restore({});
  }
  AMPD_RETURN_IF_ERROR(Begin());
  progress_ = {.applied_order = progress_.applied_order};  // All orders are undone and not repeated.
  reports_.Restore({});
  recovery_.Rewind({}, /*num_replays=*/0);
  batcher_.Seek({});
  return absl::OkStatus();
}

absl::Status TrainingRun::ChangePrecision() {
  amp::EngineState state = engine_->ExportState();
  AMPD_RETURN_IF_ERROR(MakeEngine());
  state.scaler = engine_->scaler().state();
  return engine_->ImportState(state);
}

absl::Status TrainingRun::ApplyLossScale(const v1::LiveLossScale& settings) {
  const v1::LossScaleOrder values = SettingsAfter(progress_.applied_order, settings);
  progress_.applied_order = settings.number();
  amp::LossScaler& scaler = engine_->scaler();
  scaler.Set(values.has_scale() ? std::optional<double>(values.scale()) : std::nullopt,
             values.has_growth_interval() ? std::optional<int>(values.growth_interval()) : std::nullopt);
  return reports_.ReportLossScaleSet(step(), values, scaler, plan_.policy.preset);
}

absl::Status TrainingRun::LoadState(TrainingState state) {
  AMPD_RETURN_IF_ERROR(WithReason(engine_->ImportState(state.engine), v1::Reason::CHECKPOINT_ERROR));
  if (!batcher_.Seek(state.cursor)) {
    return AttemptError(v1::Reason::CHECKPOINT_ERROR,
                        "the checkpoint's position in the data set is beyond the end of the data; the data may have "
                        "been changed since");
  }
  if (plateau_.has_value()) {
    plateau_->Restore(state.plateau);
    engine_->set_rate_factor(state.plateau.rate_factor);
  }
  if (early_stopping_.has_value()) {
    early_stopping_->Restore(state.early_stopping.value_or(EarlyStoppingState()));
  }
  progress_ = {.step = state.step,
               .train_loss = state.train_loss,
               .phase_losses = state.phase_losses,
               .applied_order = state.applied_order,
               .best_eval_loss = state.best_eval_loss,
               .evaluation_pending = state.evaluation_pending,
               .sample_pending = state.sample_pending};
  reports_.Restore({.underflow = state.underflow_reported,
                    .fp8_underflow = state.fp8_underflow_reported,
                    .activations = state.activations_reported,
                    .not_finite = state.not_finite_reported,
                    .uneven = state.uneven_reported});
  recovery_.Rewind(std::move(state.monitor), state.num_replays);
  return absl::OkStatus();
}

absl::Status TrainingRun::WarnIfElsewhere(const LoadedCheckpoint& checkpoint) const {
  std::string differences;
  for (const auto& [name, value] : Identity().environment) {
    const auto then = checkpoint.environment.find(name);
    const std::string before = then == checkpoint.environment.end() ? "?" : then->second;
    if (before != value) {
      absl::StrAppend(&differences, differences.empty() ? "" : ", ", name, " ", before, " -> ", value);
    }
  }
  return differences.empty()
             ? absl::OkStatus()
             : telemetry_.Event(
                   Event::NUMERICS_MAY_DIFFER, step(),
                   absl::StrCat(
                       "results may differ from those of earlier attempts, because the environment has changed: ",
                       differences));
}

TrainingState TrainingRun::CaptureState(amp::EngineState reuse) const {
  const StepReports::Reported& reported = reports_.reported();
  return {.step = progress_.step,
          .train_loss = progress_.train_loss,
          .phase_losses = progress_.phase_losses,
          .cursor = batcher_.cursor(),
          .num_replays = recovery_.num_replays(),
          .underflow_reported = reported.underflow,
          .fp8_underflow_reported = reported.fp8_underflow,
          .activations_reported = reported.activations,
          .not_finite_reported = reported.not_finite,
          .uneven_reported = reported.uneven,
          .applied_order = progress_.applied_order,
          .monitor = recovery_.monitor(),
          .recovery = recovery_.state(),
          .plateau = plateau_.has_value() ? plateau_->state() : amp::PlateauState(),
          .best_eval_loss = progress_.best_eval_loss,
          .early_stopping = early_stopping_.has_value() ? std::optional(early_stopping_->state()) : std::nullopt,
          .evaluation_pending = progress_.evaluation_pending || LacksEvaluation(plan_, step()),
          .sample_pending = progress_.sample_pending,
          .engine = engine_->ExportState(std::move(reuse))};
}

CheckpointContent TrainingRun::Identity() const {
  const v1::AttemptKey& key = start_.key();
  CheckpointContent content;
  content.job_id = key.job_id();
  content.attempt = key.attempt();
  // Store only a digest of the token: whoever may read checkpoints must not be able to act for the attempt.
  content.token = Sha256Hex(absl::StrCat("attempt ", key.token())).substr(0, 32);
  const v1::Device& device = start_.device();
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

}  // namespace ampd::train
