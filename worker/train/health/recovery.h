#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker.pb.h"
#include "precision/policy.h"
#include "worker/train/health/divergence_monitor.h"
#include "worker/train/health/numeric_verdict.h"
#include "worker/train/health/precision_raise.h"

namespace ampd::train {

// How a run reacted to bad numbers, over all attempts of the job. Part of a checkpoint.
struct RecoveryState {
  int num_rollbacks = 0;
  int num_lowerings = 0;  // How many times the precision was lowered again after a raise.
  PrecisionRaise raise;
  int64_t num_quiet_steps = 0;  // Steps without a finding since the raise or the last finding.
  friend bool operator==(const RecoveryState&, const RecoveryState&) = default;
};

// What the run does next, because of its numbers.
struct Decision {
  enum class Action {
    kContinue,
    kReplay,    // Train on the batch of the last step again.
    kRollBack,  // Return to the newest good checkpoint.
    kRaise,     // Continue from the current state in a wider precision.
    kLower,     // Continue from the current state in the precision of the spec.
    kFail,      // End the attempt.
  };
  Action action = Action::kContinue;
  std::vector<Finding> findings = {};                        // Reported before the action, in order.
  v1::Reason::Code reason = v1::Reason::REASON_UNSPECIFIED;  // kFail: the end reason.
  std::string message = {};                                  // kRollBack, kRaise, kFail: why.
  std::string rule = {};                                     // kRollBack: the name of the rule that found the problem.
  // For kRollBack: whether the precision is wider than before the roll-back. If so, the run trains on the same data
  // again. If not, that data would fail again in the same way, so the run continues with the data after the failed
  // step.
  bool is_wider = false;
  PrecisionRaise lowered = {};  // kLower: the raise that is reverted.
  int64_t num_quiet_steps = 0;  // kLower: the number of steps without a finding that led to it.

  // Whether the findings say that the run's numbers will not recover by themselves.
  bool has_diverged() const { return !findings.empty() && findings.back().reason != v1::Reason::REASON_UNSPECIFIED; }
};

// A tensor of the trained state that is not finite.
struct NonFiniteState {
  Symptom symptom = Symptom::kParameter;
  std::string description;  // "layers.0.weight has 3 elements that are not finite"
  std::string tensor;
  int64_t count = 0;
};

// Decides how a run reacts to its numbers: whether it continues, replays a batch, rolls back, changes its precision or
// fails. Recovery assumes that the caller carries out each decision and computes in `state().raise` from then on. Owns
// the divergence monitor and the counts that limit the reactions.
//
//   a skipped step whose scale fell    kReplay up to 8 times in a row, if the job replays skipped batches
//   numbers that will not recover      as on_divergence says: kContinue (WARN), kFail, or kRollBack up to 3 times a
//                                      job; a roll-back also raises the precision if the job asks for it and the data
//                                      is not to blame
//   a scale at its floor               as the policy says: kContinue, kRaise, or kFail if nothing is wider
//   a quiet period after a raise       kLower, if the job asks for it and may still roll back
//
// Pure: no clock, no I/O, no tensors. Thread-compatible.
class Recovery {
 public:
  struct Options {
    v1::JobSpec::OnDivergence on_divergence = v1::JobSpec::FAIL;
    int64_t lower_again_after_steps = 0;  // 0: a raise is never reverted.
    bool replay_skipped = false;
    v1::Device device;  // Decides which formats are available.
  };

  explicit Recovery(Options options);

  // Returns kLower or kContinue. Call it before each step and not after one, so that a run that resumes from a
  // checkpoint decides the same as an uninterrupted run.
  Decision BeforeStep();
  // Decides after a step, from the step's numbers. `policy`: the policy that the step used, with state().raise applied.
  // REQUIRES: called once per step, in order.
  Decision AfterStep(const StepNumbers& numbers, const precision::ResolvedPolicy& policy);
  // Decides about a non-finite tensor that was found at `step`. Some symptoms never end an attempt; these are only
  // reported.
  Decision OnNonFiniteState(const NonFiniteState& found, int64_t step, const RunFacts& facts,
                            const precision::ResolvedPolicy& policy);
  // Decides about a finished run that skipped all of its `num_steps` steps. `facts` are used only if AfterStep was
  // never called.
  Decision OnNothingTrained(int64_t num_steps, const RunFacts& facts) const;

  // Whether on_divergence is one of the kinds of roll-back.
  bool may_roll_back() const;
  // Whether the precision was raised and BeforeStep may lower it again. If so, the results of each step must be read
  // before the next step begins.
  bool may_lower() const { return options_.lower_again_after_steps > 0 && is_raised(); }
  bool only_warns() const { return options_.on_divergence == v1::JobSpec::WARN; }
  // Whether the recent losses are all finite and not spiking. A run must roll back only to a checkpoint that was made
  // while this was true.
  bool calm() const { return monitor_.calm(); }

  const RecoveryState& state() const { return state_; }
  const MonitorState& monitor() const { return monitor_.state(); }
  int num_replays() const { return num_replays_; }
  // Sets the state to that of the checkpoint from which the attempt resumes.
  void Restore(RecoveryState state) { state_ = std::move(state); }
  // For a roll-back: resets the monitor's state and the number of replays to those of the checkpoint. Keeps the number
  // of roll-backs and the raise.
  void Rewind(MonitorState monitor, int num_replays);

 private:
  bool is_raised() const { return state_.raise != PrecisionRaise(); }
  bool ShouldReplay(const StepNumbers& numbers) const;
  void OnDivergence(const Finding& finding, const std::string& module, const precision::ResolvedPolicy& policy,
                    Decision& decision);
  void AtFloor(const StepNumbers& numbers, const precision::ResolvedPolicy& policy, Decision& decision);

  const Options options_;
  DivergenceMonitor monitor_;
  RecoveryState state_;
  int num_replays_ = 0;                 // Replays of the next step's batch, including the one in that step.
  std::optional<RunFacts> last_facts_;  // Facts about the last step.
};

}  // namespace ampd::train
