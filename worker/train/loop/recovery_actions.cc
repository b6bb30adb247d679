#include "worker/train/loop/recovery_actions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/train/loop/attempt_error.h"

namespace ampd::train {

using v1::Event;

absl::Status RecoveryActions::Report(const Decision& decision) {
  for (const Finding& finding : decision.findings) {
    AMPD_RETURN_IF_ERROR(run_.telemetry().Event(finding.kind, run_.step(), finding.message, finding.attributes));
  }
  return absl::OkStatus();
}

absl::Status RecoveryActions::Act(const Decision& decision) {
  switch (decision.action) {
    case Decision::Action::kContinue:
    case Decision::Action::kReplay:
      return absl::OkStatus();
    case Decision::Action::kRollBack:
      return RollBack(decision);
    case Decision::Action::kRaise:
      return Raise(decision);
    case Decision::Action::kLower:
      return Lower(decision);
    case Decision::Action::kFail:
      return AttemptError(decision.reason, decision.message);
  }
  return absl::OkStatus();
}

absl::Status RecoveryActions::RollBack(const Decision& decision) {
  const int64_t from_step = run_.step();
  const data::Sampler::Cursor here = in_flight_.UnreadFrom(run_.batcher().cursor());
  AMPD_RETURN_IF_ERROR(ReturnToSoundState());
  // In the same precision, the same data would fail in the same way. The run therefore skips that data, as PaLM's
  // training did (Chowdhery et al. 2022, section 5.1).
  if (!decision.is_wider) {
    run_.batcher().Seek(here);
  }
  AMPD_RETURN_IF_ERROR(run_.telemetry().Event(
      Event::ROLLED_BACK, run_.step(),
      absl::StrCat("rolled back from step ", from_step, " to step ", run_.step(), "; training ",
                   decision.is_wider ? "repeats" : "skips", " the data between these steps; cause: ", decision.message),
      {{"rule", decision.rule},
       {"from_step", absl::StrCat(from_step)},
       {"to_step", absl::StrCat(run_.step())},
       {"num_rollbacks", absl::StrCat(run_.recovery().state().num_rollbacks)}}));
  return decision.is_wider ? ReportRaise(decision.message) : absl::OkStatus();
}

// Returns to the newest undamaged checkpoint, or to the start if there is none, in the run's current precision.
absl::Status RecoveryActions::ReturnToSoundState() {
  in_flight_.Abandon();  // These steps belong to the engine that is replaced.
  AMPD_ASSIGN_OR_RETURN(CheckpointSaver::RollBackSource source, checkpoints_.LoadForRollBack());
  AMPD_RETURN_IF_ERROR(ReportDamage(source));
  return source.checkpoint.has_value() ? run_.ReturnTo(*source.checkpoint) : run_.ReturnToStart();
}

absl::Status RecoveryActions::ReportDamage(const CheckpointSaver::RollBackSource& source) {
  if (source.damage.ok()) {
    return absl::OkStatus();
  }
  return run_.telemetry().Event(
      Event::CHECKPOINT_DAMAGED, run_.step(),
      absl::StrCat(source.damage.message(), "; the job rolls back to ",
                   source.path.empty() ? "the start of the job" : absl::StrCat("the older checkpoint ", source.path)),
      {{"damaged", DamagedCheckpoint(source.damage)}, {"taken", source.path}});
}

absl::Status RecoveryActions::Raise(const Decision& decision) {
  AMPD_RETURN_IF_ERROR(run_.ChangePrecision());
  return ReportRaise(decision.message);
}

absl::Status RecoveryActions::ReportRaise(const std::string& why) {
  const PrecisionRaise& raise = run_.recovery().state().raise;
  return run_.telemetry().Event(Event::PRECISION_RAISED, run_.step(),
                                absl::StrCat("training continues ", Describe(raise), ": ", why),
                                {{"precision", run_.plan().policy.preset},
                                 {"fp32_modules", absl::StrJoin(raise.fp32_modules, ",")},
                                 {"bf16_modules", absl::StrJoin(raise.bf16_modules, ",")}});
}

absl::Status RecoveryActions::Lower(const Decision& decision) {
  AMPD_RETURN_IF_ERROR(run_.ChangePrecision());
  const std::string raised = Describe(decision.lowered);
  const std::string& preset = run_.plan().policy.preset;
  const std::string num_steps = absl::StrCat(decision.num_quiet_steps);
  return run_.telemetry().Event(Event::PRECISION_LOWERED, run_.step(),
                                absl::StrCat("the precision was lowered back to ", preset, " after ", num_steps,
                                             " steps without a problem; until now, training ran ", raised),
                                {{"precision", preset},
                                 {"raise", raised},
                                 {"num_steps", num_steps},
                                 {"num_lowerings", absl::StrCat(run_.recovery().state().num_lowerings)}});
}

}  // namespace ampd::train
