#include "client/compare/report.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/compare/verdict_text.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr char kNotMeasured[] = "not measured";
constexpr double kJoulesPerKilojoule = 1000;

using Measure = std::function<std::optional<double>(const PolicyRuns&)>;
using Format = std::function<std::string(double)>;

Measure MeanOf(std::optional<double> RunFacts::*value) {
  return [value](const PolicyRuns& policy) { return policy.MeanOf(value); };
}

std::string BytesText(double bytes) { return FormatBytes(std::llround(bytes)); }

std::string Rounded(double value) { return absl::StrFormat("%.4g", value); }

// Returns a rate as text. From 1,000 on it has the form "25,900", because an exponent would be hard to read.
std::string RateText(double value) { return value < 1000 ? Rounded(value) : FormatCount(std::llround(value)); }

using Text = std::function<std::string(const PolicyRuns&)>;

std::string FormatsText(const PolicyRuns& policy) {
  const std::string& precision = policy.runs.front().precision;
  return absl::StrCat(precision.empty() ? "never started" : precision, policy.emulated() ? " (emulated)" : "");
}

std::string DeviceText(const PolicyRuns& policy) {
  // Prefer a run that reports a number of threads: a run that failed early does not.
  const auto whole =
      std::find_if(policy.runs.begin(), policy.runs.end(), [](const RunFacts& one) { return one.num_threads > 0; });
  const RunFacts& run = whole == policy.runs.end() ? policy.runs.front() : *whole;
  return absl::StrCat(run.device.empty() ? "none" : run.device,
                      run.num_threads > 0 ? absl::StrCat(", ", run.num_threads, " threads") : "");
}

std::string RunsText(const PolicyRuns& policy) {
  return absl::StrCat(policy.runs.size(), policy.runs.size() == 1 ? " run" : " runs");
}

// Returns the text if it is the same for all policies; otherwise unset.
std::optional<std::string> CommonText(const Comparison& comparison, const Text& text) {
  const std::string first = text(comparison.policies.front());
  const bool is_common = std::all_of(comparison.policies.begin(), comparison.policies.end(),
                                     [&](const PolicyRuns& policy) { return text(policy) == first; });
  return is_common ? std::optional(first) : std::nullopt;
}

// Returns the device on which all policies ran; unset if they ran on different devices. Ignores the number of threads
// of a policy if none of its runs has reported one.
std::optional<std::string> CommonDevice(const Comparison& comparison) {
  std::optional<std::string> common;
  for (const PolicyRuns& policy : comparison.policies) {
    if (std::any_of(policy.runs.begin(), policy.runs.end(), [](const RunFacts& run) { return run.num_threads > 0; })) {
      if (common.value_or(DeviceText(policy)) != DeviceText(policy)) {
        return std::nullopt;
      }
      common = DeviceText(policy);
    }
  }
  const bool are_all_there = common.has_value() && std::all_of(comparison.policies.begin(), comparison.policies.end(),
                                                               [&](const PolicyRuns& policy) {
                                                                 return common->starts_with(policy.runs.front().device);
                                                               });
  return are_all_there ? common : CommonText(comparison, DeviceText);
}

// Builds the rows of facts of a comparison.
class FactTable {
 public:
  explicit FactTable(const Comparison& comparison) : comparison_(comparison) {}

  // Adds a row of texts. Adds nothing if the texts are equal, because the report's headline then has the text.
  void AddTexts(const std::string& name, const Text& text) {
    if (CommonText(comparison_, text).has_value()) {
      return;
    }
    FactRow row = {.name = name};
    for (const PolicyRuns& policy : comparison_.policies) {
      row.cells.push_back(Printable(text(policy)));
    }
    rows_.push_back(row);
  }

  // Adds a row of the formats in which the policies ran. Adds nothing if they equal the names of the policies.
  void AddFormats(const std::string& name) {
    if (std::any_of(comparison_.policies.begin(), comparison_.policies.end(),
                    [](const PolicyRuns& policy) { return FormatsText(policy) != policy.name; })) {
      AddTexts(name, FormatsText);
    }
  }

  // Adds a row with the verdict on each policy (StandingText), and marks the recommended one.
  void AddStandings(const std::string& name) {
    FactRow row = {.name = name};
    for (size_t place = 0; place < comparison_.policies.size(); ++place) {
      const std::string standing =
          StandingText(comparison_.verdict.policies[place].standing, comparison_.policies[place]);
      row.cells.push_back(place == comparison_.verdict.recommended ? "take (" + standing + ")" : standing);
    }
    rows_.push_back(row);
  }

  // Adds a row of numbers, with their differences from the baseline in percent. Adds nothing if no policy has a value.
  // `missing` is the cell of a policy that has no value.
  void AddShares(const std::string& name, const Measure& measure, const Format& format,
                 const char* missing = kNotMeasured) {
    const auto& baseline = comparison_.verdict.baseline;
    const std::optional<double> reference =
        baseline.has_value() ? measure(comparison_.policies[*baseline]) : std::nullopt;
    Add(name, measure, missing, [&](size_t place, double value) {
      const bool has_share = reference.value_or(0) > 0 && place != baseline;
      return absl::StrCat(format(value), has_share ? "  " + PercentText(value / *reference - 1) : "");
    });
  }

  // Adds a row of results, each with its difference from the baseline and the noise of that difference.
  void AddResults(const std::string& name, const Measure& measure,
                  std::optional<Difference> PolicyDifference::*difference) {
    Add(name, measure, kNotMeasured, [&](size_t place, double value) {
      const auto& from_baseline = comparison_.verdict.policies[place].difference.*difference;
      return absl::StrCat(Rounded(value), from_baseline.has_value() ? "  " + DifferenceText(*from_baseline) : "");
    });
  }

  // Adds a row of counts, each the sum over the policy's runs. Adds nothing if all are 0.
  void AddCounts(const std::string& name, int64_t RunFacts::*count) {
    FactRow row = {.name = name};
    bool any = false;
    for (const PolicyRuns& policy : comparison_.policies) {
      int64_t sum = 0;
      for (const RunFacts& run : policy.runs) {
        sum += run.*count;
      }
      any = any || sum > 0;
      row.cells.push_back(FormatCount(sum));
    }
    if (any) {
      rows_.push_back(row);
    }
  }

  std::vector<FactRow> rows() && { return std::move(rows_); }

 private:
  void Add(const std::string& name, const Measure& measure, const char* missing,
           const std::function<std::string(size_t, double)>& text) {
    FactRow row = {.name = name};
    bool any = false;
    for (size_t place = 0; place < comparison_.policies.size(); ++place) {
      const std::optional<double> value = measure(comparison_.policies[place]);
      any = any || value.has_value();
      row.cells.push_back(value.has_value() ? text(place, *value) : missing);
    }
    if (any) {
      rows_.push_back(row);
    }
  }

  const Comparison& comparison_;
  std::vector<FactRow> rows_;
};

bool AnyHas(const Comparison& comparison, const Measure& measure) {
  return std::any_of(comparison.policies.begin(), comparison.policies.end(),
                     [&measure](const PolicyRuns& policy) { return measure(policy).has_value(); });
}

std::optional<double> LargestBatch(const PolicyRuns& policy) {
  return policy.largest_batch.has_value() ? std::optional(static_cast<double>(*policy.largest_batch)) : std::nullopt;
}

}  // namespace

std::vector<FactRow> FactRows(const Comparison& comparison) {
  const Rates& rates = comparison.rates;
  FactTable table(comparison);
  table.AddStandings("verdict");
  table.AddFormats("formats");
  if (!CommonDevice(comparison).has_value()) {
    table.AddTexts("device", DeviceText);
  }
  table.AddTexts("runs", RunsText);
  table.AddShares("time of the steps", MeanOf(&RunFacts::step_seconds), SecondsText);
  table.AddShares("samples per second", MeanOf(&RunFacts::samples_per_second), RateText);
  table.AddShares("model FLOP/s", MeanOf(&RunFacts::flops_per_second), FormatFlops);
  table.AddShares("MFU", MeanOf(&RunFacts::mfu), [](double mfu) { return absl::StrFormat("%.1f%%", 100 * mfu); });
  table.AddShares("mean memory", MeanOf(&RunFacts::mean_memory_bytes), BytesText);
  table.AddShares("peak memory", MeanOf(&RunFacts::peak_memory_bytes), BytesText);
  table.AddShares(
      "largest batch", LargestBatch, [](double batch) { return FormatCount(std::llround(batch)); }, "not known");
  table.AddResults("training loss", &PolicyRuns::MeanLoss, &PolicyDifference::train_loss);
  table.AddResults("evaluation loss", MeanOf(&RunFacts::eval_loss), &PolicyDifference::eval_loss);
  table.AddResults("accuracy", MeanOf(&RunFacts::eval_accuracy), &PolicyDifference::eval_accuracy);
  table.AddCounts("skipped steps", &RunFacts::num_skipped);
  table.AddCounts("loss scale at its floor", &RunFacts::num_scale_collapses);
  table.AddCounts("raises of the precision", &RunFacts::num_precision_raises);
  table.AddShares("energy", MeanOf(&RunFacts::energy_joules),
                  [](double joules) { return absl::StrCat(Rounded(joules / kJoulesPerKilojoule), " kJ"); });
  table.AddShares(
      "price of a run", [&rates](const PolicyRuns& policy) { return policy.Cost(rates); }, Rounded);
  table.AddShares(
      "CO2 of a run", [&rates](const PolicyRuns& policy) { return policy.CarbonGrams(rates); },
      [](double grams) { return Rounded(grams) + " g"; });
  return std::move(table).rows();
}

std::string SubjectText(const Comparison& comparison) {
  const auto runs = CommonText(comparison, RunsText);
  const auto device = CommonDevice(comparison);
  return Printable(absl::StrCat(comparison.id.empty() ? "Finished jobs" : "Comparison " + comparison.id, ": ",
                                runs.has_value() ? *runs + " of each policy" : "several runs of some policies",
                                device.has_value() ? " on " + *device : " on different devices"));
}

std::vector<std::string> NotMeasured(const Comparison& comparison) {
  std::vector<std::string> texts;
  const Rates& rates = comparison.rates;
  const bool has_energy = AnyHas(comparison, MeanOf(&RunFacts::energy_joules));
  if (!has_energy) {
    texts.emplace_back("energy (the worker can't read the counters of its devices)");
  }
  if (!has_energy && rates.price_per_kwh.has_value()) {
    texts.emplace_back("price of the energy (--energy-price has no effect without the energy)");
  }
  if (!has_energy && rates.carbon_grams_per_kwh.has_value()) {
    texts.emplace_back("CO2 (--carbon has no effect without the energy)");
  }
  if (!AnyHas(comparison, MeanOf(&RunFacts::mfu))) {
    texts.emplace_back("MFU (ampd does not know the peak rates of the devices)");
  }
  if (!AnyHas(comparison, LargestBatch)) {
    texts.emplace_back("largest batch (the server gave no estimate)");
  }
  if (!AnyHas(comparison, [](const PolicyRuns& policy) { return policy.MeanLoss(); })) {
    texts.emplace_back("training loss (it needs at least 20 steps that have one loss each)");
  }
  if (!AnyHas(comparison, MeanOf(&RunFacts::eval_loss))) {
    texts.emplace_back("accuracy (the jobs have no evaluation data)");
  }
  return texts;
}

std::vector<std::string> Remarks(const Comparison& comparison) {
  std::vector<std::string> remarks;
  for (const std::string& warning : comparison.verdict.warnings) {
    remarks.push_back("Warning: " + warning);
  }
  remarks.insert(remarks.end(), comparison.verdict.notes.begin(), comparison.verdict.notes.end());
  if (!comparison.verdict.basis.empty()) {
    remarks.push_back(comparison.verdict.basis);
  }
  remarks.push_back(absl::StrCat("Not measured: ", absl::StrJoin(NotMeasured(comparison), "; "), "."));
  return remarks;
}

std::string RunName(const PolicyRuns& policy, const RunFacts& run) {
  return policy.runs.size() == 1 ? policy.name : absl::StrCat(policy.name, " seed ", run.seed);
}

std::vector<std::vector<std::string>> RunRows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (const PolicyRuns& policy : comparison.policies) {
    for (const RunFacts& run : policy.runs) {
      std::vector<std::string>& row = rows.emplace_back();
      row.push_back(Printable(RunName(policy, run)));
      if (run.losses.empty()) {
        row.insert(row.end(), {"-", "-", "-", "-"});
      } else {
        std::vector<double> losses;
        for (const CurvePoint& point : run.losses) {
          losses.push_back(point.value);
        }
        row.insert(row.end(), {Rounded(Smoothed(losses).back()), Rounded(losses.back()),
                               FormatCount(run.losses.back().step), SecondsText(run.losses.back().seconds)});
      }
      row.push_back(run.peak_memory_bytes.has_value() ? BytesText(*run.peak_memory_bytes) : "-");
    }
  }
  return rows;
}

}  // namespace ampd::client
