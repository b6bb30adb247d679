#include "worker/train/health/recovery.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "precision/loss_scale.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;
using Action = Decision::Action;

// Maximum number of roll-backs of a job. A job that went wrong this often will go wrong again.
constexpr int kMaxRollbacks = 3;

// Maximum number of replays of a batch. Eight halvings of the scale are a factor of 256; an overflow that remains then
// is not caused by the scale.
constexpr int kMaxReplays = 8;

void Fail(v1::Reason::Code reason, std::string message, Decision& decision) {
  decision.action = Action::kFail;
  decision.reason = reason;
  decision.message = std::move(message);
}

}  // namespace

Recovery::Recovery(Options options) : options_(std::move(options)) {}

bool Recovery::may_roll_back() const {
  return options_.on_divergence == v1::JobSpec::ROLL_BACK ||
         options_.on_divergence == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION;
}

void Recovery::Rewind(MonitorState monitor, int num_replays) {
  monitor_.Restore(std::move(monitor));
  num_replays_ = num_replays;
}

// Lowers the precision after enough quiet steps, but only while the numbers of roll-backs and lowerings together are
// below kMaxRollbacks. A run whose precision was lowered may need another roll-back, so one must be left. The limit
// also prevents endless raising and lowering.
Decision Recovery::BeforeStep() {
  if (!may_lower() || state_.num_quiet_steps < options_.lower_again_after_steps ||
      state_.num_rollbacks + state_.num_lowerings >= kMaxRollbacks) {
    return {};
  }
  Decision decision;
  decision.action = Action::kLower;
  decision.lowered = std::exchange(state_.raise, {});
  decision.num_quiet_steps = std::exchange(state_.num_quiet_steps, 0);
  ++state_.num_lowerings;
  return decision;
}

// Replaying helps only if a lower loss scale can make the gradients finite. So the loss must be finite, and the step
// must have lowered the scale.
bool Recovery::ShouldReplay(const StepNumbers& numbers) const {
  const bool may_heal = numbers.skipped && numbers.backed_off && std::isfinite(numbers.loss);
  return options_.replay_skipped && may_heal && num_replays_ < kMaxReplays;
}

Decision Recovery::AfterStep(const StepNumbers& numbers, const precision::ResolvedPolicy& policy) {
  Decision decision;
  last_facts_ = numbers.run;
  const bool replays = ShouldReplay(numbers);
  num_replays_ = replays ? num_replays_ + 1 : 0;
  decision.action = replays ? Action::kReplay : Action::kContinue;
  const std::vector<Finding> findings = monitor_.Observe(numbers);
  state_.num_quiet_steps = is_raised() && findings.empty() ? state_.num_quiet_steps + 1 : 0;
  for (const Finding& finding : findings) {
    decision.findings.push_back(finding);
    if (decision.has_diverged()) {
      // `module` is where the backward pass went wrong. If the loss is not finite, the fault came earlier, in the
      // forward pass, so no module is named.
      OnDivergence(finding, std::isfinite(numbers.loss) ? numbers.run.module : "", policy, decision);
      return decision;
    }
  }
  if (numbers.at_floor) {
    AtFloor(numbers, policy, decision);
  }
  return decision;
}

Decision Recovery::OnNonFiniteState(const NonFiniteState& found, int64_t step, const RunFacts& facts,
                                    const precision::ResolvedPolicy& policy) {
  const Verdict verdict = JudgeNumbers(found.symptom, facts);
  Decision decision;
  decision.findings.push_back(
      {.kind = verdict.reason == v1::Reason::REASON_UNSPECIFIED ? v1::Event::WARNING : v1::Event::DIVERGENCE,
       .reason = verdict.reason,
       .message = absl::StrCat("at step ", step, " ", found.description, ": ", verdict.advice),
       .attributes = {{"rule", "state_not_finite"}, {"tensor", found.tensor}, {"count", absl::StrCat(found.count)}}});
  if (decision.has_diverged()) {
    OnDivergence(decision.findings.back(), /*module=*/"", policy, decision);
  }
  return decision;
}

Decision Recovery::OnNothingTrained(int64_t num_steps, const RunFacts& facts) const {
  const Verdict verdict = JudgeNumbers(Symptom::kNothingApplied, last_facts_.value_or(facts));
  std::string message =
      absl::StrCat("all ", num_steps, " steps were skipped, so nothing was trained; ", verdict.advice);
  Decision decision;
  if (only_warns()) {
    decision.findings.push_back({.kind = v1::Event::DIVERGENCE, .message = std::move(message), .attributes = {}});
  } else {
    Fail(verdict.reason, std::move(message), decision);
  }
  return decision;
}

void Recovery::OnDivergence(const Finding& finding, const std::string& module, const precision::ResolvedPolicy& policy,
                            Decision& decision) {
  if (only_warns()) {
    return;
  }
  if (!may_roll_back()) {
    Fail(finding.reason, finding.message, decision);
    return;
  }
  if (state_.num_rollbacks == kMaxRollbacks) {
    Fail(finding.reason,
         absl::StrCat(finding.message, "; the job was already rolled back ", kMaxRollbacks,
                      " times, which did not help"),
         decision);
    return;
  }
  ++state_.num_rollbacks;
  state_.num_quiet_steps = 0;
  decision.action = Action::kRollBack;
  decision.message = finding.message;
  decision.rule = finding.attributes.at("rule");
  const bool is_of_data = finding.reason == v1::Reason::DATA_ERROR;  // A wider precision does not repair bad data.
  if (options_.on_divergence == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION && !is_of_data) {
    if (auto wider = Widen(state_.raise, policy, module, options_.device); wider.has_value()) {
      state_.raise = *std::move(wider);
      decision.is_wider = true;
    }
  }
}

void Recovery::AtFloor(const StepNumbers& numbers, const precision::ResolvedPolicy& policy, Decision& decision) {
  const LossScaleConfig::AtFloor action = policy.loss_scale.at_floor;
  if (action == LossScaleConfig::AtFloor::kClamp) {
    return;
  }
  const std::string why = absl::StrCat("at step ", numbers.step, " the loss scale fell to its floor, ",
                                       precision::LossScaleText(numbers.next_loss_scale));
  auto wider = Widen(state_.raise, policy, /*module=*/"", options_.device);
  if (action == LossScaleConfig::AtFloor::kFail || !wider.has_value()) {
    const bool is_finite = numbers.run.loss_is_finite;
    const Verdict verdict = JudgeNumbers(is_finite ? Symptom::kGradients : Symptom::kLoss, numbers.run);
    Fail(verdict.reason, absl::StrCat(why, is_finite ? "" : ", and the loss is not finite", ": ", verdict.advice),
         decision);
    return;
  }
  // The step was skipped, so the parameters are still good and no roll-back is needed.
  decision.action = Action::kRaise;
  decision.message = why;
  state_.raise = *std::move(wider);
  state_.num_quiet_steps = 0;
}

}  // namespace ampd::train
