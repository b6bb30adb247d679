#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "worker/train/health/numeric_verdict.h"

namespace ampd::train {

// What the monitor is told of a step.
struct StepNumbers {
  int64_t step = 0;
  float loss = 0;
  float grad_norm = 0;
  float loss_scale = 1;  // the one that multiplied this step's loss
  RunFacts run = {};     // what end reasons and advice are chosen by; where its scaling is on, skipped steps are usual
  // The loss is that of one of two networks against each other: it rises when the other one gets better.
  bool adversarial = false;
  bool skipped = false;  // non-finite gradients
  bool scale_moved = false;
  int hysteresis = 1;     // overflows that the scaler tolerates without moving
  bool at_floor = false;  // it should have moved and could not
};

// Something that the monitor saw, for an event of this kind. `reason` other than REASON_UNSPECIFIED: the numbers will
// not heal by themselves, and on_divergence says what to do.
struct Finding {
  v1::Event::Kind kind = v1::Event::WARNING;
  v1::Reason reason = v1::REASON_UNSPECIFIED;
  std::string message;
  std::map<std::string, std::string> attributes;  // `rule`, and the numbers that it judged
};

// All that the monitor remembers; part of a checkpoint, so that a resumed run finds what the whole run would have
// found.
struct MonitorState {
  std::vector<float> losses;  // finite ones of applied steps, oldest first, without those of a spike
  std::vector<bool> skips;    // of the last steps, oldest first
  float first_level = 0;      // the largest of the first losses: what an untrained model has
  int num_first = 0;          // losses that went into it
  int num_not_finite = 0;     // skipped steps in a row whose loss was not finite
  int num_stuck = 0;          // skipped steps in a row with the scale, if any, where it was
  int num_spiking = 0;        // steps in a row with a loss far above those before
  int num_diverged = 0;       // of those, the ones above the first level
  int range_quiet_steps = 0;  // until the rule may speak again; 0: it may
  int spike_quiet_steps = 0;
  int skips_quiet_steps = 0;
  bool told_not_finite = false;  // since the last finite loss
  bool told_floor = false;       // since the scale moved last
  friend bool operator==(const MonitorState&, const MonitorState&) = default;
};

// Judges the numbers of a run, step by step. What it says it says once, and again only after 100 steps without cause.
//
//   WARNING loss_range: within the last 100 losses one is over 10 times an earlier one; the classic warning, without
//     falls by as much, which are what training is for
//   LOSS_SPIKE loss_spike: a loss is over 10 times the median of the last 100 (20 at least) and above them all; the
//     noise of batches stays below
//   DIVERGENCE diverged: 32 such losses in a row, all above the largest of the first 20: worse than untrained, for
//     longer than a bad stretch of data; 100 that are not above them are the run's new level
//   DIVERGENCE loss_not_finite: at once on an applied step or without loss scaling; otherwise after 20 skipped steps in
//     a row, for the scale multiplies gradients only and cannot heal a loss
//   DIVERGENCE scale_stuck: 100 steps skipped in a row with one scale, and as many more as the hysteresis tolerates: no
//     rule of the scaler will end it
//   DIVERGENCE gradients_not_finite: without loss scaling, 20 steps skipped in a row: nothing heals them
//   LOSS_SCALE_AT_FLOOR scale_floor: the scale should fall and cannot; again only once it moved
//   WARNING skipped_share: over a quarter of the last 200 steps skipped; a healthy scaler skips under 1%
//
// How high an adversarial loss is tells nothing of the run: the first three rules leave it out.
//
// Losses below 1% of the first ones count as that 1%: tenfold noise down there says nothing. Pure: no clock, no I/O;
// thread-compatible.
class DivergenceMonitor {
 public:
  // REQUIRES: called once a step, in order.
  std::vector<Finding> Observe(const StepNumbers& numbers);

  // Nothing looks bad now: a checkpoint of this moment is a good one to go back to.
  bool calm() const { return state_.num_spiking == 0 && state_.num_not_finite == 0 && !state_.told_not_finite; }

  const MonitorState& state() const { return state_; }
  // Longer windows than the monitor keeps are cut to their newest.
  void Restore(MonitorState state);

 private:
  void CheckFinite(const StepNumbers& numbers, std::vector<Finding>& findings);
  void CheckScale(const StepNumbers& numbers, std::vector<Finding>& findings);
  void CheckSkips(const StepNumbers& numbers, std::vector<Finding>& findings);
  void CheckSpike(const StepNumbers& numbers, std::vector<Finding>& findings);
  void ForgetLosses();
  void CheckRange(const StepNumbers& numbers, std::vector<Finding>& findings);

  MonitorState state_;
};

}  // namespace ampd::train
