#include "worker/train/health/divergence_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "precision/loss_scale.h"

namespace ampd::train {
namespace {

using precision::LossScaleText;

constexpr size_t kMaxLosses = 100;
constexpr size_t kMaxSkips = 200;
constexpr size_t kMinMedian = 20;
constexpr int kNumFirst = 20;
constexpr float kTooMuch = 10;
constexpr float kNoise = 0.01f;  // Losses below this share of the first level are treated as noise.
constexpr int kMaxDiverged = 32;
constexpr int kMaxSpiking = 100;   // After so many spikes in a row, their losses become the run's new level.
constexpr int kMaxNotFinite = 20;  // Steps in a row with a non-finite loss, or with non-finite gradients.
constexpr int kMaxStuck = 100;
constexpr int kQuietSteps = 100;
constexpr size_t kSkipsPerWarning = 4;  // Warn if more than 1/4 of the steps were skipped.

template <typename Value>
void Push(std::vector<Value>& window, Value value, size_t max_size) {
  if (window.size() == max_size) {
    window.erase(window.begin());
  }
  window.push_back(value);
}

template <typename Value>
void KeepNewest(std::vector<Value>& window, size_t max_size) {
  if (window.size() > max_size) {
    window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(max_size));
  }
}

// The median; the upper one if the number of values is even. REQUIRES: `values` is not empty.
float Median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Whether a rule may report at this step. `holds`: whether the rule's condition holds at this step. After the condition
// held, the rule reports again only once the condition has not held for kQuietSteps steps in a row.
bool MaySpeak(bool holds, int& quiet_steps) {
  const bool may = holds && quiet_steps == 0;
  quiet_steps = holds ? kQuietSteps : std::max(0, quiet_steps - 1);
  return may;
}

bool IsScaled(const StepNumbers& numbers) { return numbers.run.scaling != precision::LossScaleConfig::Kind::kOff; }

// Makes a rule's finding of kind DIVERGENCE. Its message is `what`, a description of the symptom, followed by advice.
Finding Diverged(const char* rule, Symptom symptom, const std::string& what, const StepNumbers& numbers) {
  const Verdict verdict = JudgeNumbers(symptom, numbers.run);
  return {.kind = v1::Event::DIVERGENCE,
          .reason = verdict.reason,
          .message = absl::StrCat(what, ": ", verdict.advice),
          .attributes = {{"rule", rule},
                         {"loss", absl::StrCat(numbers.loss)},
                         {"grad_norm", absl::StrCat(numbers.grad_norm)},
                         {"scale", LossScaleText(numbers.loss_scale)}}};
}

Finding Warning(v1::Event::Kind kind, std::string message, std::map<std::string, std::string> attributes) {
  return {.kind = kind,
          .reason = v1::Reason::REASON_UNSPECIFIED,
          .message = std::move(message),
          .attributes = std::move(attributes)};
}

}  // namespace

std::vector<Finding> DivergenceMonitor::Observe(const StepNumbers& numbers) {
  std::vector<Finding> findings;
  CheckFinite(numbers, findings);
  CheckScale(numbers, findings);
  CheckSkips(numbers, findings);
  if (std::isfinite(numbers.loss) && !numbers.skipped && !numbers.adversarial) {
    CheckSpike(numbers, findings);
    CheckRange(numbers, findings);
  }
  return findings;
}

void DivergenceMonitor::Restore(MonitorState state) {
  KeepNewest(state.losses, kMaxLosses);
  KeepNewest(state.skips, kMaxSkips);
  state_ = std::move(state);
}

void DivergenceMonitor::CheckFinite(const StepNumbers& numbers, std::vector<Finding>& findings) {
  if (std::isfinite(numbers.loss)) {
    state_.num_not_finite = 0;
    state_.not_finite_reported = false;
    return;
  }
  const bool is_usual = IsScaled(numbers) && numbers.skipped && !numbers.run.ignores_all_labels;
  const int wait = is_usual ? kMaxNotFinite : 1;
  if (++state_.num_not_finite < wait || std::exchange(state_.not_finite_reported, true)) {
    return;
  }
  const std::string what = wait == 1 ? absl::StrCat("the loss of step ", numbers.step, " is not finite")
                                     : absl::StrCat("the losses of the last ", wait, " steps, up to step ",
                                                    numbers.step, ", are not finite");
  findings.push_back(Diverged("loss_not_finite", Symptom::kLoss, what, numbers));
}

void DivergenceMonitor::CheckScale(const StepNumbers& numbers, std::vector<Finding>& findings) {
  state_.floor_reported = state_.floor_reported && !numbers.scale_moved;
  if (numbers.at_floor && !std::exchange(state_.floor_reported, true)) {
    findings.push_back(Warning(v1::Event::LOSS_SCALE_AT_FLOOR,
                               absl::StrCat("the loss scale is at its floor, ", LossScaleText(numbers.loss_scale)),
                               {{"rule", "scale_floor"}, {"scale", LossScaleText(numbers.loss_scale)}}));
  }
  state_.num_stuck = numbers.skipped && !numbers.scale_moved ? state_.num_stuck + 1 : 0;
  // A user may set any hysteresis up to the largest int, so the sum needs 64 bits.
  const int64_t bound = IsScaled(numbers) ? int64_t{kMaxStuck} + numbers.hysteresis : kMaxNotFinite;
  // If a non-finite loss causes the skipped steps, CheckFinite has already reported it.
  if (state_.num_stuck < bound || state_.not_finite_reported) {
    return;
  }
  const int num_skipped = std::exchange(state_.num_stuck, 0);
  findings.push_back(
      IsScaled(numbers)
          ? Diverged("scale_stuck", Symptom::kGradients,
                     absl::StrCat("the last ", num_skipped, " steps were all skipped, and the loss scale stayed at ",
                                  LossScaleText(numbers.loss_scale)),
                     numbers)
          : Diverged("gradients_not_finite", Symptom::kGradients,
                     absl::StrCat("the last ", num_skipped,
                                  " steps were all skipped, because their gradients are not finite"),
                     numbers));
}

void DivergenceMonitor::CheckSkips(const StepNumbers& numbers, std::vector<Finding>& findings) {
  Push(state_.skips, numbers.skipped, kMaxSkips);
  const auto num_skipped = static_cast<size_t>(std::count(state_.skips.begin(), state_.skips.end(), true));
  const bool too_many = state_.skips.size() == kMaxSkips && num_skipped * kSkipsPerWarning > kMaxSkips;
  if (MaySpeak(too_many, state_.skips_quiet_steps)) {
    findings.push_back(Warning(v1::Event::WARNING,
                               absl::StrCat(num_skipped, " of the last ", kMaxSkips, " steps were skipped"),
                               {{"rule", "skipped_share"},
                                {"num_skipped", absl::StrCat(num_skipped)},
                                {"num_steps", absl::StrCat(kMaxSkips)}}));
  }
}

// Whether the ratio of `loss` to the losses before it says how much it rose: none of them is negative, and the bound
// below which losses are noise is above 0.
bool DivergenceMonitor::HasRatios(float loss) const {
  return loss >= 0 && kNoise * state_.first_level > 0 &&
         std::all_of(state_.losses.begin(), state_.losses.end(), [](float earlier) { return earlier >= 0; });
}

void DivergenceMonitor::CheckSpike(const StepNumbers& numbers, std::vector<Finding>& findings) {
  if (state_.num_first < kNumFirst) {
    ++state_.num_first;
    state_.first_level = std::max(state_.first_level, numbers.loss);
  }
  const bool can_judge = state_.losses.size() >= kMinMedian && HasRatios(numbers.loss);
  const float median = can_judge ? std::max(Median(state_.losses), kNoise * state_.first_level) : 0;
  const float largest = can_judge ? *std::max_element(state_.losses.begin(), state_.losses.end()) : 0;
  const bool spikes = can_judge && numbers.loss > kTooMuch * median && numbers.loss > largest;
  state_.num_spiking = spikes ? state_.num_spiking + 1 : 0;
  state_.num_diverged = spikes && numbers.loss > state_.first_level ? state_.num_diverged + 1 : 0;
  if (MaySpeak(spikes, state_.spike_quiet_steps)) {
    findings.push_back(
        Warning(v1::Event::LOSS_SPIKE,
                absl::StrCat("the loss of step ", numbers.step, " is ", numbers.loss,
                             ", more than 10 times the median of the last ", state_.losses.size(), " losses, ", median),
                {{"rule", "loss_spike"},
                 {"loss", absl::StrCat(numbers.loss)},
                 {"median", absl::StrCat(median)},
                 {"grad_norm", absl::StrCat(numbers.grad_norm)}}));
  }
  if (!spikes) {
    Push(state_.losses, numbers.loss, kMaxLosses);
    return;
  }
  if (state_.num_diverged < kMaxDiverged) {
    if (state_.num_spiking == kMaxSpiking) {
      ForgetLosses();
    }
    return;
  }
  Finding finding =
      Diverged("diverged", Symptom::kHighLoss,
               absl::StrCat("the losses of the last ", kMaxDiverged,
                            " steps are more than 10 times the median of the losses before them (", median,
                            ") and higher than the largest loss at the start of the job (", state_.first_level, ")"),
               numbers);
  finding.attributes["median"] = absl::StrCat(median);
  findings.push_back(std::move(finding));
  ForgetLosses();
}

// Drops the losses seen so far, so that the run is judged only by the losses that follow.
void DivergenceMonitor::ForgetLosses() {
  state_.losses.clear();
  state_.num_spiking = 0;
  state_.num_diverged = 0;
}

void DivergenceMonitor::CheckRange(const StepNumbers& numbers, std::vector<Finding>& findings) {
  float smallest = state_.losses.empty() ? numbers.loss : state_.losses.front();
  float worst = 1;
  const auto take = [&](float loss) {
    smallest = std::max(std::min(smallest, loss), kNoise * state_.first_level);
    worst = std::max(worst, loss / smallest);
  };
  if (HasRatios(numbers.loss)) {
    std::for_each(state_.losses.begin(), state_.losses.end(), take);
    take(numbers.loss);  // This loss may be a spike, and spikes are not in `state_.losses`.
  }
  if (MaySpeak(worst > kTooMuch, state_.range_quiet_steps)) {
    findings.push_back(Warning(
        v1::Event::WARNING, absl::StrCat("within the last ", kMaxLosses, " steps the loss rose by a factor of ", worst),
        {{"rule", "loss_range"}, {"loss", absl::StrCat(numbers.loss)}, {"ratio", absl::StrCat(worst)}}));
  }
}

}  // namespace ampd::train
