// The training loop's reactions to bad numbers in a step.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "precision/loss_scale.h"
#include "worker/train/loop/training_loop.h"
#include "worker/train/plan/model_source.h"
#include "worker/train/report/gan_step.h"
#include "worker/train/report/trainer_log.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;
using precision::LossScaleText;
using v1::Event;

// A job that went wrong this often will go wrong again.
constexpr int kMaxRollbacks = 3;

// Eight halvings are a factor of 256; an overflow that remains is not caused by the scale.
constexpr int kMaxReplays = 8;

absl::Status Failed(v1::Reason reason, const std::string& message) {
  return Error(absl::StatusCode::kFailedPrecondition, v1::Reason_Name(reason), message);
}

}  // namespace

// Reports the values now in force, which can differ from the order because of the policy.
absl::Status TrainingLoop::TellOrder(const v1::LossScaleOrder& order) {
  const amp::LossScaler& scaler = engine_->scaler();
  const std::string scale = LossScaleText(scaler.scale());
  std::map<std::string, std::string> attributes = {{"scale", scale},
                                                   {"growth_interval", absl::StrCat(scaler.state().growth_interval)}};
  if (!scaler.enabled()) {
    return telemetry_.Event(
        Event::LOSS_SCALE_SET, step_,
        absl::StrCat("the loss scale stays off: ", plan_.policy.preset, " scales no loss, so the order does nothing"),
        attributes);
  }
  std::vector<std::string> texts;
  if (order.has_scale()) {
    texts.push_back(absl::StrCat("the loss scale was set to ", scale));
    if (static_cast<float>(order.scale()) != scaler.scale()) {
      const std::string ordered = LossScaleText(order.scale());
      attributes.emplace("ordered_scale", ordered);
      absl::StrAppend(&texts.back(), ", the policy's ", order.scale() > scaler.scale() ? "cap" : "floor", ", where ",
                      ordered, " was ordered");
    }
  }
  if (order.has_growth_interval()) {
    texts.push_back(absl::StrCat("the growth interval was set to ", order.growth_interval(), " steps"));
  }
  return telemetry_.Event(Event::LOSS_SCALE_SET, step_, absl::StrJoin(texts, "; "), attributes);
}

// Replays only a batch that a lower scale can repair: its loss is finite, and the scale fell.
absl::Status TrainingLoop::ReplayIfSkipped(const amp::StepResult& result, const data::Sampler::Cursor& place) {
  const bool may_heal =
      result.skipped && result.scale_change == amp::ScaleChange::kBackedOff && std::isfinite(result.loss);
  if (!plan_.replay_skipped || !may_heal || num_replays_ == kMaxReplays) {
    num_replays_ = 0;
    return absl::OkStatus();
  }
  ++num_replays_;
  batcher_.Seek(place);
  const std::string scale = LossScaleText(engine_->scaler().scale());
  return telemetry_.Event(
      Event::BATCH_REPLAYED, step_,
      absl::StrCat("the batch of step ", step_, " is run again as step ", step_ + 1, ", with a loss scale of ", scale),
      {{"scale", scale}, {"num_replays", absl::StrCat(num_replays_)}});
}

absl::Status TrainingLoop::CheckNumbers(const amp::StepResult& result, const data::Sampler::Cursor& place) {
  const bool moved =
      result.scale_change == amp::ScaleChange::kGrown || result.scale_change == amp::ScaleChange::kBackedOff;
  const bool at_floor = result.scale_change == amp::ScaleChange::kAtFloor;
  const std::vector<Finding> findings = monitor_.Observe({.step = step_,
                                                          .loss = result.loss,
                                                          .grad_norm = result.grad_norm,
                                                          .loss_scale = result.loss_scale,
                                                          .run = FactsOf(result, place),
                                                          .adversarial = GanStepOf(result).has_value(),
                                                          .skipped = result.skipped,
                                                          .scale_moved = moved,
                                                          .hysteresis = plan_.policy.loss_scale.hysteresis,
                                                          .at_floor = at_floor});
  const bool raised = recovery_.raise != PrecisionRaise();
  recovery_.num_quiet_steps = raised && findings.empty() ? recovery_.num_quiet_steps + 1 : 0;
  for (const Finding& finding : findings) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(finding.kind, step_, finding.message, finding.attributes));
    if (finding.reason != v1::REASON_UNSPECIFIED) {
      // With a non-finite loss, the fault is older than the backward pass that named a module.
      return OnDivergence(finding, std::isfinite(result.loss) ? result.overflow_module : "");
    }
  }
  AMPD_RETURN_IF_ERROR(TellUnderflow(result));
  AMPD_RETURN_IF_ERROR(TellFp8Underflow(result));
  AMPD_RETURN_IF_ERROR(TellDemotions(result));
  return at_floor ? AtFloor() : absl::OkStatus();
}

// Training continues with the same bits, only slower.
void TrainingLoop::TellGraphFailure() {
  if (const std::string failure = engine_->graph_failure(); failure != told_graph_failure_) {
    told_graph_failure_ = failure;
    if (!failure.empty()) {
      LogLine(absl::StrCat("steps can't be recorded in a CUDA graph and run op by op: ", failure));
    }
  }
}

absl::Status TrainingLoop::AtFloor() {
  const std::string scale = LossScaleText(engine_->scaler().scale());
  const std::string why = absl::StrCat("the loss scale fell to its floor, ", scale, ", at step ", step_);
  const LossScaleConfig::AtFloor action = plan_.policy.loss_scale.at_floor;
  if (action == LossScaleConfig::AtFloor::kClamp) {
    return absl::OkStatus();
  }
  auto wider = Widen(recovery_.raise, plan_.policy, /*module=*/"", context_.start.device());
  if (action == LossScaleConfig::AtFloor::kFail || !wider.has_value()) {
    const RunFacts facts = last_facts_.value_or(Facts());
    const Verdict verdict = JudgeNumbers(facts.loss_is_finite ? Symptom::kGradients : Symptom::kLoss, facts);
    return Failed(verdict.reason, absl::StrCat(why, facts.loss_is_finite ? "" : ", with a loss that is not finite",
                                               ": ", verdict.advice));
  }
  // The step was skipped, so the state is still good.
  AMPD_RETURN_IF_ERROR(ChangePrecision(*std::move(wider)));
  return TellRaise(why);
}

// Continues from the current state; only the loss scale starts over.
absl::Status TrainingLoop::ChangePrecision(PrecisionRaise raise) {
  amp::EngineState state = engine_->ExportState();
  recovery_.raise = std::move(raise);
  recovery_.num_quiet_steps = 0;
  AMPD_RETURN_IF_ERROR(MakeEngine());
  state.scaler = engine_->scaler().state();
  return engine_->ImportState(state);
}

// Called before a step, so that a run resumed from a checkpoint made now decides the same. Another fault needs a
// roll-back that is still allowed, and alternating raises and lowerings must end.
bool TrainingLoop::MayLower() const {
  return plan_.lower_again_after_steps > 0 && recovery_.raise != PrecisionRaise() &&
         recovery_.num_quiet_steps >= plan_.lower_again_after_steps &&
         recovery_.num_rollbacks + recovery_.num_lowerings < kMaxRollbacks;
}

absl::Status TrainingLoop::Lower() {
  const std::string raised = Describe(recovery_.raise);
  const std::string num_steps = absl::StrCat(recovery_.num_quiet_steps);
  AMPD_RETURN_IF_ERROR(ChangePrecision({}));
  ++recovery_.num_lowerings;
  return telemetry_.Event(Event::PRECISION_LOWERED, step_,
                          absl::StrCat("goes on in ", plan_.policy.preset, " again, as it was asked to: in ", num_steps,
                                       " steps ", raised, " nothing was found wrong"),
                          {{"precision", plan_.policy.preset},
                           {"raise", raised},
                           {"num_steps", num_steps},
                           {"num_lowerings", absl::StrCat(recovery_.num_lowerings)}});
}

// Fails a job that is complete but never updated a parameter; with WARN, only reports it.
absl::Status TrainingLoop::CheckTrained() {
  if (engine_->applied_steps() > 0) {
    return absl::OkStatus();
  }
  const Verdict verdict = JudgeNumbers(Symptom::kNothingApplied, last_facts_.value_or(Facts()));
  const std::string message = absl::StrCat("all ", step_, " steps were skipped: nothing was trained; ", verdict.advice);
  return plan_.on_divergence == v1::JobSpec::WARN ? telemetry_.Event(Event::DIVERGENCE, step_, message)
                                                  : Failed(verdict.reason, message);
}

absl::Status TrainingLoop::OnDivergence(const Finding& finding, const std::string& module) {
  switch (plan_.on_divergence) {
    case v1::JobSpec::WARN:
      return absl::OkStatus();
    case v1::JobSpec::ROLL_BACK:
    case v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION:
      return RollBack(finding, module);
    default:
      return Failed(finding.reason, finding.message);
  }
}

absl::Status TrainingLoop::RollBack(const Finding& finding, const std::string& module) {
  if (recovery_.num_rollbacks == kMaxRollbacks) {
    return Failed(finding.reason, absl::StrCat(finding.message, "; it was rolled back ", kMaxRollbacks,
                                               " times before, which did not help"));
  }
  ++recovery_.num_rollbacks;
  recovery_.num_quiet_steps = 0;
  const int64_t from_step = step_;
  const data::Sampler::Cursor here = under_way_.UnreadFrom(batcher_.cursor());
  std::optional<PrecisionRaise> wider;
  const bool is_of_data = finding.reason == v1::DATA_ERROR;  // No precision helps.
  if (plan_.on_divergence == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION && !is_of_data) {
    wider = Widen(recovery_.raise, plan_.policy, module, context_.start.device());
    recovery_.raise = wider.value_or(recovery_.raise);
  }
  AMPD_RETURN_IF_ERROR(GoBack());
  // The same data in the same precision would end the same way, so it is skipped, as the authors of PaLM did (Chowdhery
  // et al. 2022, section 5.1).
  if (!wider.has_value()) {
    batcher_.Seek(here);
  }
  rolled_back_ = true;
  last_eval_.reset();
  const std::string data = wider.has_value() ? "the same data" : "the data behind it";
  AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::ROLLED_BACK, step_,
                                        absl::StrCat("went back from step ", from_step, " to step ", step_,
                                                     ", and on with ", data, ": ", finding.message),
                                        {{"rule", finding.attributes.at("rule")},
                                         {"from_step", absl::StrCat(from_step)},
                                         {"to_step", absl::StrCat(step_)},
                                         {"num_rollbacks", absl::StrCat(recovery_.num_rollbacks)}}));
  return wider.has_value() ? TellRaise(finding.message) : absl::OkStatus();
}

// Restores the state before the first step, for an attempt that began there.
absl::Status TrainingLoop::GoBackToStart() {
  if (plateau_.has_value()) {
    plateau_->Restore({});
  }
  AMPD_RETURN_IF_ERROR(Begin());
  step_ = 0;
  train_loss_ = 0;
  num_replays_ = 0;
  told_underflow_ = false;
  told_fp8_underflow_ = false;
  told_activations_ = false;
  best_eval_loss_.reset();
  monitor_.Restore({});
  batcher_.Seek({});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LoadedCheckpoint>> TrainingLoop::LoadNewestSound() {
  std::vector<v1::Checkpoint> candidates = checkpoint_writer_.written();
  const bool has_start = GoesOn(context_.start);
  if (has_start) {
    candidates.push_back(context_.start.start_from());
    const auto& older = context_.start.older_checkpoints();
    candidates.insert(candidates.end(), older.begin(), older.end());
  }
  absl::Status damage;  // Damage of the newest one; retention may have deleted older ones.
  for (const v1::Checkpoint& candidate : candidates) {
    auto loaded = context_.checkpoints.Load(candidate.path(), candidate.manifest_sha256());
    if (loaded.ok()) {
      AMPD_RETURN_IF_ERROR(ReportDamage(damage, candidate.path()));
      return std::optional(*std::move(loaded));
    }
    if (DamagedCheckpoint(loaded.status()).empty()) {
      return loaded.status();
    }
    damage.Update(loaded.status());
  }
  if (has_start) {
    return Error(damage.code(), "CHECKPOINT_ERROR",
                 absl::StrCat(damage.message(), "; no older checkpoint to roll back to is sound either"));
  }
  AMPD_RETURN_IF_ERROR(ReportDamage(damage, ""));
  return std::nullopt;
}

absl::Status TrainingLoop::ReportDamage(const absl::Status& damage, const std::string& taken) {
  if (damage.ok()) {
    return absl::OkStatus();
  }
  const std::string instead = taken.empty() ? "the start of the job" : absl::StrCat("the older checkpoint ", taken);
  return telemetry_.Event(Event::CHECKPOINT_DAMAGED, step_, absl::StrCat(damage.message(), "; rolls back to ", instead),
                          {{"damaged", DamagedCheckpoint(damage)}, {"taken", taken}});
}

// Goes back to the newest sound checkpoint or to the start, in the run's current precision.
absl::Status TrainingLoop::GoBack() {
  under_way_.Abandon();  // Their engine is replaced.
  batches_under_way_.clear();
  AMPD_RETURN_IF_ERROR(checkpoint_writer_.Wait());
  snapshot_ = {};  // Frees memory for the state to load.
  AMPD_ASSIGN_OR_RETURN(std::optional<LoadedCheckpoint> loaded, LoadNewestSound());
  if (!loaded.has_value()) {
    return GoBackToStart();
  }
  AMPD_ASSIGN_OR_RETURN(TrainingState state, StateOf(*loaded));
  AMPD_RETURN_IF_ERROR(MakeEngine());
  DropScaleOfAnotherPrecision(*loaded, state);
  state.applied_order = applied_order_;  // Later orders are undone and not repeated.
  state.owes_sample = false;             // Already drawn before the first step.
  if (loaded->job_id != context_.start.key().job_id()) {
    state.best_eval_loss.reset();  // Refers to checkpoints that this job does not keep.
  }
  return Adopt(std::move(state));
}

absl::Status TrainingLoop::TellRaise(const std::string& why) {
  return telemetry_.Event(Event::PRECISION_RAISED, step_,
                          absl::StrCat("goes on ", Describe(recovery_.raise), ": ", why),
                          {{"precision", plan_.policy.preset},
                           {"fp32_modules", absl::StrJoin(recovery_.raise.fp32_modules, ",")},
                           {"bf16_modules", absl::StrJoin(recovery_.raise.bf16_modules, ",")}});
}

bool TrainingLoop::MayRollBack() const {
  return plan_.on_divergence == v1::JobSpec::ROLL_BACK ||
         plan_.on_divergence == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION;
}

}  // namespace ampd::train
