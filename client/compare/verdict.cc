#include "client/compare/verdict.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/compare/verdict_text.h"

namespace ampd::client {
namespace {

constexpr double kMostTimeNoise = 0.1;  // With more noise of the time, a policy does not count as "not slower".
constexpr double kMostPaceNoise = 0.1;  // A larger noise of the pace causes a warning.

bool IsUsable(const PolicyRuns& policy) {
  return std::all_of(policy.runs.begin(), policy.runs.end(), [](const RunFacts& run) {
    return run.succeeded() && !run.diverged() && run.num_precision_raises == 0;
  });
}

std::optional<size_t> BaselineOf(const std::vector<PolicyRuns>& policies, const std::string& wanted) {
  const std::optional<size_t> named = PlaceOfPolicy(policies, wanted.empty() ? "fp32" : wanted);
  if (named.has_value() && IsUsable(policies[*named])) {
    return named;
  }
  for (const bool may_be_emulated : {false, true}) {
    for (size_t i = 0; i < policies.size(); ++i) {
      if (IsUsable(policies[i]) && (may_be_emulated || !policies[i].emulated())) {
        return i;
      }
    }
  }
  return std::nullopt;
}

// Returns the standing if at least one run of the policy ended badly; unset if all runs ended well.
std::optional<Standing> StandingByEnd(const PolicyRuns& policy) {
  const auto any = [&policy](auto condition) { return std::any_of(policy.runs.begin(), policy.runs.end(), condition); };
  if (any([](const RunFacts& run) { return run.diverged(); })) {
    return Standing::kDiverged;
  }
  if (any([](const RunFacts& run) { return !run.succeeded(); })) {
    return Standing::kFailed;
  }
  return any([](const RunFacts& run) { return run.num_precision_raises > 0; }) ? std::optional(Standing::kRaised)
                                                                               : std::nullopt;
}

// Derives the standing from the training loss and one evaluation result: the accuracy or, without an accuracy, the
// loss.
Standing StandingByResults(const PolicyDifference& difference) {
  std::vector<double> gains;  // positive: the policy is better by more than the noise; negative: worse
  const auto add = [&gains](const std::optional<Difference>& result, double direction) {
    if (result.has_value() && result->half_width.has_value()) {
      gains.push_back(result->exceeds_noise() ? direction * result->value : 0);
    }
  };
  add(difference.train_loss, -1);
  if (difference.eval_accuracy.has_value()) {
    add(difference.eval_accuracy, 1);
  } else {
    add(difference.eval_loss, -1);
  }
  if (gains.empty()) {
    return Standing::kUnknown;
  }
  if (*std::min_element(gains.begin(), gains.end()) < 0) {
    return Standing::kLessAccurate;
  }
  return *std::max_element(gains.begin(), gains.end()) > 0 ? Standing::kMoreAccurate : Standing::kEqual;
}

// The kinds of devices on which runs ran, each with the known numbers of threads.
using Places = std::map<std::string, std::set<int>>;

void AddPlaces(const PolicyRuns& policy, Places* places) {
  for (const RunFacts& run : policy.runs) {
    // A device is a text such as "w1/cpu, AMD EPYC". Compare only the part after the comma, the name that the vendor
    // gives the device, because runs on two workers with the same kind of device can be compared.
    const size_t comma = run.device.find(", ");
    const std::string device = comma == std::string::npos ? run.device : run.device.substr(comma + 2);
    std::set<int>& num_threads = (*places)[absl::StrCat(run.num_devices, " x ", device)];
    if (run.num_threads > 0) {
      num_threads.insert(run.num_threads);
    }
  }
}

// Returns each place as a text: "1 x cpu with 4 threads". If no run on a device has a known number of threads, the text
// names only the device.
std::set<std::string> PlaceTexts(const Places& places) {
  std::set<std::string> texts;
  for (const auto& [device, num_threads] : places) {
    if (num_threads.empty()) {
      texts.insert(device);
    }
    for (const int number : num_threads) {
      texts.insert(absl::StrCat(device, " with ", number, " threads"));
    }
  }
  return texts;
}

// Returns whether both policies ran on the same devices with the same numbers of threads. An unknown number of threads
// equals every number.
bool RanOnTheSameDevices(const PolicyRuns& a, const PolicyRuns& b) {
  Places of_a;
  Places of_b;
  AddPlaces(a, &of_a);
  AddPlaces(b, &of_b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && (one.second.empty() || other.second.empty() || one.second == other.second);
  });
}

bool IsFaster(const PolicyRuns& policy, const PolicyRuns& baseline, const PolicyVerdict& verdict) {
  const auto& time = verdict.difference.step_time;
  return !policy.emulated() && !baseline.emulated() && verdict.same_device && time.has_value() &&
         time->exceeds_noise() && time->value <= -kLeastTimeGain;
}

// Returns whether the policy takes no more time than the baseline, and its time is known well enough to say so.
bool IsNotSlower(const PolicyVerdict& verdict) {
  const auto& time = verdict.difference.step_time;
  return time.has_value() && time->value <= kLeastTimeGain && time->half_width.has_value() &&
         *time->half_width <= kMostTimeNoise;
}

PolicyVerdict JudgeOne(const PolicyRuns& policy, const PolicyRuns& baseline) {
  PolicyVerdict verdict = {.difference = DifferenceBetween(policy, baseline)};
  verdict.same_device = RanOnTheSameDevices(policy, baseline);
  verdict.standing = StandingByEnd(policy).value_or(StandingByResults(verdict.difference));
  verdict.is_faster = IsFaster(policy, baseline, verdict);
  return verdict;
}

bool IsCandidate(const PolicyRuns& policy, const PolicyVerdict& verdict) {
  return (verdict.standing == Standing::kEqual || verdict.standing == Standing::kMoreAccurate) && !policy.emulated() &&
         verdict.same_device;
}

// Returns the candidate with the largest positive `gain`; unset if no candidate has a positive gain.
template <typename Gain>
std::optional<size_t> Best(const std::vector<PolicyRuns>& policies, const Verdict& verdict, Gain gain) {
  std::optional<size_t> best;
  double most = 0;
  for (size_t i = 0; i < policies.size(); ++i) {
    const PolicyVerdict& of_policy = verdict.policies[i];
    if (IsCandidate(policies[i], of_policy) && gain(of_policy) > most) {
      best = i;
      most = gain(of_policy);
    }
  }
  return best;
}

std::optional<size_t> Recommended(const std::vector<PolicyRuns>& policies, const Verdict& verdict) {
  const auto time_gain = [](const PolicyVerdict& policy) {
    return policy.is_faster ? -policy.difference.step_time->value : 0;
  };
  const auto memory_gain = [](const PolicyVerdict& policy) {
    const double gain = -policy.difference.peak_memory.value_or(0);
    return IsNotSlower(policy) && gain >= kLeastMemoryGain ? gain : 0;
  };
  const auto is_more_accurate = [](const PolicyVerdict& policy) {
    return policy.standing == Standing::kMoreAccurate && IsNotSlower(policy) ? 1 : 0;
  };
  for (const auto& best : {Best(policies, verdict, time_gain), Best(policies, verdict, memory_gain),
                           Best(policies, verdict, is_more_accurate)}) {
    if (best.has_value()) {
      return best;
    }
  }
  return verdict.baseline;
}

// Warns about policies whose pace varied much within their runs.
void WarnOfUnevenPace(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  std::vector<std::string> uneven;
  for (const PolicyRuns& policy : policies) {
    if (policy.MeanOf(&RunFacts::pace_noise).value_or(0) > kMostPaceNoise) {
      uneven.push_back(policy.name);
    }
  }
  if (!uneven.empty()) {
    verdict->warnings.push_back(
        absl::StrCat("The pace varied by more than 10% within the runs of ", absl::StrJoin(uneven, ", "),
                     ": the device was probably busy with other work, so the times say little."));
  }
}

// Warns about policies whose runs took unequal times, although the runs differ only in their seeds.
void WarnOfUnequalTimes(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  std::vector<std::string> unequal;
  for (const PolicyRuns& policy : policies) {
    std::vector<double> times;
    for (const RunFacts& run : policy.Counted()) {
      if (run.step_seconds.has_value() && !run.stopped_early) {
        times.push_back(*run.step_seconds);
      }
    }
    if (times.size() > 1 && StandardDeviation(times) > kMostPaceNoise * Mean(times)) {
      unequal.push_back(policy.name);
    }
  }
  if (!unequal.empty()) {
    verdict->warnings.push_back(
        absl::StrCat("The runs of ", absl::StrJoin(unequal, ", "),
                     " took times that differ by more than 10%: the device was probably busy with other work, so the "
                     "times say little."));
  }
}

// Warns if the runs are too short for their losses to be compared.
void WarnOfShortRuns(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  constexpr int64_t kFewest = 20;  // With fewer steps, TailOf finds no tail of the loss curve.
  int64_t num_steps = kFewest;
  for (const PolicyRuns& policy : policies) {
    for (const RunFacts& run : policy.Counted()) {
      num_steps = run.succeeded() ? std::min(num_steps, run.num_steps) : num_steps;
    }
  }
  if (num_steps < kFewest) {
    verdict->warnings.push_back(
        absl::StrCat("A run has only ", num_steps, num_steps == 1 ? " step" : " steps",
                     ": it takes at least 20 to compare training losses, and many more until a model has learned "
                     "enough for its accuracy to say something."));
  }
}

void AddWarnings(const std::vector<PolicyRuns>& policies, const std::string& wanted,
                 const std::vector<std::string>& parts_that_differ, Verdict* verdict) {
  const std::string name = wanted.empty() ? "fp32" : wanted;
  const std::optional<size_t> named = PlaceOfPolicy(policies, name);
  if (named.has_value() && named != verdict->baseline) {
    verdict->warnings.push_back(absl::StrCat(
        name, " did not succeed",
        verdict->baseline.has_value() ? absl::StrCat(", so the baseline is ", policies[*verdict->baseline].name) : "",
        "."));
  }
  if (!parts_that_differ.empty()) {
    verdict->warnings.push_back(
        absl::StrCat("The jobs differ in more than their precision: ", absl::StrJoin(parts_that_differ, ", "),
                     ". Differences between them may have other causes than the policy."));
  }
  for (size_t i = 0; i < policies.size(); ++i) {
    const Standing standing = verdict->policies[i].standing;
    const bool is_compared = verdict->baseline.has_value() && standing <= Standing::kUnknown;
    if (is_compared && standing != Standing::kBaseline && verdict->policies[i].difference.num_pairs == 0) {
      verdict->warnings.push_back(absl::StrCat("No job of ", policies[i].name, " has the seed of a job of ",
                                               policies[*verdict->baseline].name,
                                               ", so a part of their difference comes from the seeds."));
    }
  }
  WarnOfUnevenPace(policies, verdict);
  WarnOfUnequalTimes(policies, verdict);
  WarnOfShortRuns(policies, verdict);
  Places all;
  for (const PolicyRuns& policy : policies) {
    AddPlaces(policy, &all);
  }
  if (const std::set<std::string> places = PlaceTexts(all); places.size() > 1) {
    verdict->warnings.push_back(
        absl::StrCat("The jobs did not all run on the same device, so their times cannot be "
                     "compared: ",
                     absl::StrJoin(places, "; "), "."));
  }
}

}  // namespace

Verdict Judge(const std::vector<PolicyRuns>& policies, const std::string& baseline,
              const std::vector<std::string>& parts_that_differ) {
  Verdict verdict = {.baseline = BaselineOf(policies, baseline)};
  for (size_t i = 0; i < policies.size(); ++i) {
    if (i == verdict.baseline) {
      verdict.policies.push_back({.standing = Standing::kBaseline});
    } else if (verdict.baseline.has_value()) {
      verdict.policies.push_back(JudgeOne(policies[i], policies[*verdict.baseline]));
    } else {
      verdict.policies.push_back({.standing = StandingByEnd(policies[i]).value_or(Standing::kUnknown)});
    }
  }
  verdict.recommended = Recommended(policies, verdict);
  AddWarnings(policies, baseline, parts_that_differ, &verdict);
  Explain(policies, &verdict);
  return verdict;
}

}  // namespace ampd::client
