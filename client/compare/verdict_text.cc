#include "client/compare/verdict_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr double kVisibleShare = 0.005;  // Smaller differences of memory are not mentioned.

// Returns the differences of the results in words: "training loss +0.0004 (noise 0.003), accuracy -0.001 (noise
// 0.004)".
std::string ResultsText(const PolicyDifference& difference) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, const std::optional<Difference>& result) {
    if (result.has_value()) {
      parts.push_back(absl::StrCat(name, " ", DifferenceText(*result)));
    }
  };
  add("training loss", difference.train_loss);
  add("accuracy", difference.eval_accuracy);
  if (!difference.eval_accuracy.has_value()) {
    add("evaluation loss", difference.eval_loss);
  }
  return absl::StrJoin(parts, ", ");
}

std::string MemoryClause(const PolicyDifference& difference) {
  const double share = difference.peak_memory.value_or(0);
  return std::abs(share) < kVisibleShare ? "" : absl::StrCat(" with ", ShareText(share, "peak memory"));
}

std::string InsteadOf(const PolicyRuns& policy, const PolicyRuns& baseline, std::optional<double> RunFacts::*value,
                      std::string (*text)(double)) {
  return absl::StrCat(" (", text(policy.MeanOf(value).value_or(0)), " instead of ",
                      text(baseline.MeanOf(value).value_or(0)), ")");
}

std::string MemoryText(double bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

std::string ChoiceText(const std::vector<PolicyRuns>& policies, const Verdict& verdict) {
  if (!verdict.recommended.has_value()) {
    return "Take none of these policies: none of them ran to its end with results that can be used.";
  }
  const PolicyRuns& policy = policies[*verdict.recommended];
  const PolicyRuns& baseline = policies[*verdict.baseline];
  const PolicyVerdict& chosen = verdict.policies[*verdict.recommended];
  if (chosen.standing == Standing::kBaseline) {
    const bool any_emulated =
        std::any_of(policies.begin(), policies.end(), [](const PolicyRuns& one) { return one.emulated(); });
    return absl::StrCat("Keep ", policy.name,
                        policies.size() == 1 ? ": it is the only policy that was compared."
                                             : absl::StrCat(": at the same accuracy, no other policy",
                                                            any_emulated ? " that this device does not emulate" : "",
                                                            " is faster, or needs less memory without being slower."));
  }
  if (chosen.is_faster) {
    return absl::StrCat("Take ", policy.name, ": its steps take ",
                        ShareText(chosen.difference.step_time->value, "time"), " than those of ", baseline.name,
                        InsteadOf(policy, baseline, &RunFacts::step_seconds, SecondsText),
                        MemoryClause(chosen.difference), ".");
  }
  if (chosen.difference.peak_memory.value_or(0) <= -kLeastMemoryGain) {
    return absl::StrCat("Take ", policy.name, ": it needs ", ShareText(*chosen.difference.peak_memory, "peak memory"),
                        " than ", baseline.name, InsteadOf(policy, baseline, &RunFacts::peak_memory_bytes, MemoryText),
                        " and is not slower.");
  }
  return absl::StrCat("Take ", policy.name, ": its results are better than those of ", baseline.name,
                      ", and it is not slower.");
}

// Returns why a policy is not recommended instead of the baseline. The text follows the policy's name in a sentence.
std::string WhyNot(const PolicyRuns& policy, const PolicyVerdict& verdict) {
  switch (verdict.standing) {
    case Standing::kDiverged:
      return "diverged";
    case Standing::kFailed:
      return StandingText(verdict.standing, policy);
    case Standing::kRaised:
      return "had to raise its precision";
    case Standing::kLessAccurate:
      return "is less accurate";
    case Standing::kUnknown:
      return "has no results that could be compared";
    default:
      break;
  }
  if (policy.emulated()) {
    return "is emulated on this device";
  }
  if (!verdict.same_device) {
    return "ran on another device";
  }
  const auto& time = verdict.difference.step_time;
  if (!time.has_value()) {
    return "has no measured time";
  }
  if (!time->half_width.has_value()) {
    return absl::StrCat("takes ", ShareText(time->value, "time"), ", with unknown noise");
  }
  const double memory = verdict.difference.peak_memory.value_or(0);
  return absl::StrCat(
      memory <= -kLeastMemoryGain ? absl::StrCat("needs ", ShareText(memory, "peak memory"), " but ") : "",
      time->exceeds_noise() && time->value > 0 ? absl::StrCat("takes ", ShareText(time->value, "time"))
      : memory <= -kLeastMemoryGain            ? "may be slower"
                                               : "is not faster");
}

std::string ReasonText(const std::vector<PolicyRuns>& policies, const Verdict& verdict) {
  if (verdict.recommended != verdict.baseline) {
    const PolicyVerdict& chosen = verdict.policies[*verdict.recommended];
    return absl::StrCat("Its results are ", chosen.standing == Standing::kEqual ? "equal within the noise" : "better",
                        ": ", ResultsText(chosen.difference), ".");
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;  // Each reason with its policies' names.
  for (size_t i = 0; i < policies.size(); ++i) {
    if (i == verdict.baseline) {
      continue;
    }
    const std::string why = WhyNot(policies[i], verdict.policies[i]);
    auto reason = std::find_if(reasons.begin(), reasons.end(), [&why](const auto& one) { return one.first == why; });
    reason = reason == reasons.end() ? reasons.insert(reason, {why, {}}) : reason;
    reason->second.push_back(policies[i].name);
  }
  std::vector<std::string> clauses;
  for (const auto& [why, names] : reasons) {
    const bool is_plural = names.size() > 1 && absl::StartsWith(why, "is ");
    clauses.push_back(absl::StrCat(absl::StrJoin(names, " and "), " ", is_plural ? "are" + why.substr(2) : why));
  }
  if (clauses.empty()) {
    return "Compare it with other policies to learn more.";
  }
  std::string last = clauses.back();
  clauses.pop_back();
  return absl::StrCat("Of these policies, ", absl::StrJoin(clauses, ", "), clauses.empty() ? "" : ", and ", last, ".");
}

std::string BasisText(const std::vector<PolicyRuns>& policies, const Verdict& verdict) {
  int num_pairs = 0;
  for (size_t i = 0; i < policies.size(); ++i) {
    if (i != verdict.baseline) {
      const int pairs = verdict.policies[i].difference.num_pairs;
      num_pairs = num_pairs == 0 ? pairs : std::min(num_pairs, pairs);
    }
  }
  if (!verdict.baseline.has_value() || policies.size() == 1) {
    return "";
  }
  if (num_pairs > 1) {
    const bool has_accuracy =
        std::any_of(verdict.policies.begin(), verdict.policies.end(),
                    [](const PolicyVerdict& policy) { return policy.difference.eval_accuracy.has_value(); });
    return absl::StrCat("Noise is half the width of the 95% t interval over ", num_pairs,
                        " seeds; runs with the same seed are paired.",
                        has_accuracy ? " For the accuracy, it is at least the sampling error, which follows from the "
                                       "number of evaluation samples."
                                     : "");
  }
  const bool has_loss = std::any_of(verdict.policies.begin(), verdict.policies.end(), [](const PolicyVerdict& policy) {
    return policy.difference.train_loss.has_value();
  });
  return absl::StrCat(
      "Noise is estimated within one run per policy. ",
      has_loss
          ? absl::StrCat("For the training loss, it is the variation of the smoothed loss in the last fifth of the run "
                         "of ",
                         policies[*verdict.baseline].name, ". ")
          : "",
      "For the accuracy, it follows from the number of evaluation samples. For the time, it is the variation between "
      "ten equal parts of each run. Runs with other seeds may differ by more than this noise; to measure these "
      "differences, use --repeats.");
}

// Returns the advantages of a policy as clauses: "31% less time", "40% less peak memory".
std::vector<std::string> Gains(const PolicyVerdict& verdict) {
  std::vector<std::string> gains;
  if (verdict.is_faster) {
    gains.push_back(ShareText(verdict.difference.step_time->value, "time"));
  }
  if (verdict.difference.peak_memory.value_or(0) <= -kLeastMemoryGain) {
    gains.push_back(ShareText(*verdict.difference.peak_memory, "peak memory"));
  }
  return gains;
}

std::string BadEnd(const PolicyRuns& policy) {
  const auto bad = std::find_if(policy.runs.begin(), policy.runs.end(),
                                [](const RunFacts& run) { return !run.succeeded() || run.diverged(); });
  return bad == policy.runs.end() ? ""
                                  : absl::StrCat(": job ", bad->job_id, " is ", v1::Job::State_Name(bad->state), " (",
                                                 v1::Reason::Code_Name(bad->reason), ")");
}

// Returns a note on one policy, besides the verdict's two sentences; empty if there is nothing to note.
std::string NoteOn(const PolicyRuns& policy, const PolicyVerdict& verdict, const std::string& baseline) {
  const std::vector<std::string> gains = Gains(verdict);
  switch (verdict.standing) {
    case Standing::kDiverged:
      return absl::StrCat(policy.name, " diverged", BadEnd(policy), ".");
    case Standing::kFailed:
      return absl::StrCat(policy.name, " did not succeed", BadEnd(policy), ".");
    case Standing::kRaised:
      return absl::StrCat(policy.name, " had to raise its precision while it trained, so its numbers are not those of ",
                          policy.name, " alone.");
    case Standing::kLessAccurate:
      return gains.empty() ? absl::StrCat(policy.name, " is less accurate than ", baseline, " (",
                                          ResultsText(verdict.difference), ").")
                           : absl::StrCat(policy.name, " is a trade-off: ", absl::StrJoin(gains, " and "), " than ",
                                          baseline, ", but less accurate (", ResultsText(verdict.difference),
                                          "). Take it only if that accuracy is good enough.");
    case Standing::kMoreAccurate:
      return absl::StrCat(policy.name, " is more accurate than ", baseline, " (", ResultsText(verdict.difference),
                          ").");
    case Standing::kUnknown:
      return absl::StrCat("Whether ", policy.name, " is as accurate as ", baseline,
                          " is not known: a comparison needs runs of at least 20 steps, or an accuracy.");
    default:
      return "";
  }
}

// Returns the numbers of steps after which runs of the policy stopped early: "bf16 after 300 and 450 steps"; empty if
// none did.
std::string EarlyStopText(const PolicyRuns& policy) {
  std::vector<std::string> steps;
  for (const RunFacts& run : policy.runs) {
    if (run.stopped_early) {
      steps.push_back(FormatCount(run.num_steps));
    }
  }
  return steps.empty() ? "" : absl::StrCat(policy.name, " after ", absl::StrJoin(steps, " and "), " steps");
}

void NoteEarlyStops(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  std::vector<std::string> stops;
  for (const PolicyRuns& policy : policies) {
    if (std::string stop = EarlyStopText(policy); !stop.empty()) {
      stops.push_back(std::move(stop));
    }
  }
  if (!stops.empty()) {
    verdict->notes.push_back(absl::StrCat("Stopped early by train.early_stopping: ", absl::StrJoin(stops, ", "),
                                          ". Times and energy are those of the steps that were trained."));
  }
}

void AddNotes(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  std::vector<std::string> emulated;
  for (size_t i = 0; i < policies.size(); ++i) {
    const std::string baseline = verdict->baseline.has_value() ? policies[*verdict->baseline].name : "";
    if (const std::string note = NoteOn(policies[i], verdict->policies[i], baseline);
        !note.empty() && i != verdict->recommended) {
      verdict->notes.push_back(note);
    }
    if (policies[i].emulated()) {
      emulated.push_back(policies[i].name);
    }
    int64_t num_collapses = 0;
    for (const RunFacts& run : policies[i].runs) {
      num_collapses += run.num_scale_collapses;
    }
    if (num_collapses > 0) {
      verdict->notes.push_back(absl::StrCat("The loss scale of ", policies[i].name, " fell to its floor ",
                                            num_collapses, num_collapses == 1 ? " time." : " times."));
    }
  }
  if (!emulated.empty()) {
    verdict->notes.push_back(absl::StrCat(absl::StrJoin(emulated, ", "), emulated.size() == 1 ? " is" : " are",
                                          " emulated on this device: ", emulated.size() == 1 ? "its" : "their",
                                          " results are as without emulation, but ",
                                          emulated.size() == 1 ? "its" : "their", " speed is not."));
  }
  NoteEarlyStops(policies, verdict);
}

}  // namespace

void Explain(const std::vector<PolicyRuns>& policies, Verdict* verdict) {
  verdict->choice = ChoiceText(policies, *verdict);
  verdict->reason = ReasonText(policies, *verdict);
  verdict->basis = BasisText(policies, *verdict);
  AddNotes(policies, verdict);
}

std::string StandingText(Standing standing, const PolicyRuns& policy) {
  switch (standing) {
    case Standing::kBaseline:
      return "baseline";
    case Standing::kEqual:
      return "equal within noise";
    case Standing::kMoreAccurate:
      return "more accurate";
    case Standing::kLessAccurate:
      return "less accurate";
    case Standing::kDiverged:
      return "diverged";
    case Standing::kRaised:
      return "raised its precision";
    case Standing::kUnknown:
      return "not known";
    case Standing::kFailed:
      break;
  }
  const auto failed =
      std::find_if(policy.runs.begin(), policy.runs.end(), [](const RunFacts& run) { return !run.succeeded(); });
  const bool is_cancelled = failed != policy.runs.end() && failed->state == v1::Job::CANCELLED;
  return is_cancelled ? "was cancelled" : "failed";
}

std::string SecondsText(double seconds) {
  constexpr double kMinute = 60;
  if (seconds >= kMinute) {
    return FormatSpan(absl::Seconds(seconds));
  }
  return seconds < 1 ? absl::StrFormat("%.2f s", seconds) : absl::StrFormat("%.1f s", seconds);
}

std::string PercentText(double share) {
  constexpr double kWholeFrom = 0.0995;
  constexpr double kVisible = 0.0005;
  if (std::abs(share) < kVisible) {
    return "+0%";
  }
  const double percent = share * 100;
  return std::abs(share) < kWholeFrom ? absl::StrFormat("%+.1f%%", percent) : absl::StrFormat("%+.0f%%", percent);
}

std::string ShareText(double share, const std::string& noun) {
  return absl::StrCat(PercentText(std::abs(share)).substr(1), share < 0 ? " less " : " more ", noun);
}

std::string DifferenceText(const Difference& difference) {
  if (!difference.half_width.has_value() || !(*difference.half_width > 0)) {
    return absl::StrFormat("%+.3g", difference.value);
  }
  // Show two significant digits of the noise, and the value with the same number of decimals as the noise.
  constexpr int kMostDecimals = 9;
  const int decimals =
      std::clamp(1 - static_cast<int>(std::floor(std::log10(*difference.half_width))), 0, kMostDecimals);
  const double unit = std::pow(10, -decimals);
  const double value = std::abs(difference.value) < unit / 2 ? 0 : difference.value;  // Not "-0.000".
  return absl::StrFormat("%+.*f (noise %.*f)", decimals, value, decimals, *difference.half_width);
}

}  // namespace ampd::client
