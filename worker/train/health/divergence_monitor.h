#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "worker/train/health/numeric_verdict.h"

namespace ampd::train {

// Facts about a step that the monitor judges.
struct StepNumbers {
  int64_t step = 0;
  float loss = 0;
  float grad_norm = 0;
  float loss_scale = 1;  // Loss scale by which this step's loss was multiplied.
  RunFacts run = {};     // Facts that decide the end reason and the advice.
  // The loss belongs to one of two competing networks, so it rises when the other network improves.
  bool adversarial = false;
  bool skipped = false;  // The gradients were not finite.
  bool scale_moved = false;
  bool backed_off = false;    // This step's overflow lowered the loss scale.
  float next_loss_scale = 1;  // Loss scale of the next step.
  int hysteresis = 1;         // Overflows that the scaler tolerates before it lowers the scale.
  bool at_floor = false;      // The scale should have fallen, but is at its lower limit.
};

// Something that the monitor saw, to be reported as an event of kind `kind`. If `reason` is not REASON_UNSPECIFIED, the
// run's numbers will not recover by themselves, and the job's on_divergence decides what to do.
struct Finding {
  v1::Event::Kind kind = v1::Event::WARNING;
  v1::Reason::Code reason = v1::Reason::REASON_UNSPECIFIED;
  std::string message;
  std::map<std::string, std::string> attributes;  // The name of the rule, and the numbers that it judged.
};

// Everything that the monitor remembers between steps. It is part of a checkpoint, so that a resumed run reports the
// same findings as an uninterrupted run.
struct MonitorState {
  std::vector<float> losses;  // Finite losses of applied steps, oldest first, without spikes.
  std::vector<bool> skips;    // Whether each of the last steps was skipped, oldest first.
  float first_level = 0;      // Largest of the first 20 losses: the loss of an untrained model. 0 if none is above 0.
  int num_first = 0;          // Number of losses that `first_level` covers so far.
  int num_not_finite = 0;     // Steps in a row whose loss was not finite.
  int num_stuck = 0;          // Skipped steps in a row in which the loss scale, if any, did not change.
  int num_spiking = 0;        // Number of losses in a row that are spikes (see loss_spike below).
  int num_diverged = 0;       // Number of spikes in a row that are above `first_level`.
  int range_quiet_steps = 0;  // Steps until loss_range may report again; 0: it may now.
  int spike_quiet_steps = 0;
  int skips_quiet_steps = 0;
  bool not_finite_reported = false;  // A non-finite loss was reported since the last finite one.
  bool floor_reported = false;       // scale_floor was reported since the loss scale last changed.
  friend bool operator==(const MonitorState&, const MonitorState&) = default;
};

// Judges the numbers of a run, step by step. The warnings loss_range, loss_spike and skipped_share are reported once,
// and again only after their condition did not hold for 100 steps in a row.
//
//   WARNING loss_range: within the last 100 losses, one is over 10 times an earlier one. A loss that falls by as much
//     is not reported, because a falling loss is the aim of training.
//   LOSS_SPIKE loss_spike: a loss is over 10 times the median of the losses before it, and above all of them. The rule
//     uses the last 100 losses, and needs at least 20. Noise between batches does not cause such a loss.
//   DIVERGENCE diverged: 32 spikes in a row, all above the largest of the first 20 losses. The model is then worse than
//     an untrained one, for longer than a bad stretch of data lasts. After 100 spikes in a row without divergence, the
//     high loss counts as the run's normal level.
//   DIVERGENCE loss_not_finite: a loss is not finite. Reported at once if the step was applied, if there is no loss
//     scaling, or if all labels are ignored. Otherwise reported after 20 such steps in a row, all skipped: the scale
//     affects gradients only, so lowering it cannot repair a loss.
//   DIVERGENCE scale_stuck: 100 skipped steps in a row, plus the number that the hysteresis tolerates, while the scale
//     stays the same. The scaler cannot end that by itself.
//   DIVERGENCE gradients_not_finite: 20 skipped steps in a row without loss scaling. The run cannot recover from that.
//   LOSS_SCALE_AT_FLOOR scale_floor: the scale should fall but is at its lower limit. Reported again only after the
//     scale changed.
//   WARNING skipped_share: over a quarter of the last 200 steps were skipped. A healthy scaler skips under 1%.
//
// The loss of an adversarial network does not show how well it trains, so loss_range, loss_spike and diverged ignore
// it.
//
// The rules treat a loss below 1% of the largest of the first 20 losses as 1% of it, because a tenfold change below
// that is only noise.
//
// loss_range, loss_spike and diverged compare losses by their ratio, which means nothing if a loss is negative. So they
// find nothing at a step if its loss or one of the last 100 losses is negative, or if none of the first 20 losses was
// above 0. Pure: no clock, no I/O. Thread-compatible.
class DivergenceMonitor {
 public:
  // Judges a step and returns what was found. REQUIRES: called once a step, in order.
  std::vector<Finding> Observe(const StepNumbers& numbers);

  // Whether the recent losses are all finite and not spiking. A run must roll back only to a checkpoint that was made
  // while this was true.
  bool calm() const { return state_.num_spiking == 0 && state_.num_not_finite == 0 && !state_.not_finite_reported; }

  const MonitorState& state() const { return state_; }
  // Replaces the monitor's state. If a list in `state` is longer than the monitor keeps, only its newest elements are
  // kept.
  void Restore(MonitorState state);

 private:
  void CheckFinite(const StepNumbers& numbers, std::vector<Finding>& findings);
  void CheckScale(const StepNumbers& numbers, std::vector<Finding>& findings);
  void CheckSkips(const StepNumbers& numbers, std::vector<Finding>& findings);
  bool HasRatios(float loss) const;
  void CheckSpike(const StepNumbers& numbers, std::vector<Finding>& findings);
  void ForgetLosses();
  void CheckRange(const StepNumbers& numbers, std::vector<Finding>& findings);

  MonitorState state_;
};

}  // namespace ampd::train
