#pragma once

#include <string>
#include <vector>

#include "client/compare/comparison.h"
#include "client/compare/verdict.h"

namespace ampd::client {

// A finished comparison. Each format of the report is made from it.
struct Comparison {
  std::string id;     // Value of the jobs' label kCompareLabel; empty: the jobs were given one by one.
  std::string model;  // What was trained, for the headline: the jobs' common name, or its beginning.
  Rates rates;
  std::vector<PolicyRuns> policies;
  Verdict verdict;
};

// Returns what was compared, in one line: "Comparison c-1a2b3c4d: 3 runs of each policy on w1/cpu, AMD EPYC, 2
// threads".
std::string SubjectText(const Comparison& comparison);

// One fact about all policies.
struct FactRow {
  std::string name;
  std::vector<std::string> cells;  // One per policy; "not measured" if there is no value.
};

// Returns the facts of the policies, each with its difference from the baseline in percent where that helps. A fact
// that was measured for no policy is left out; see NotMeasured. Two spaces separate a value from its difference.
std::vector<FactRow> FactRows(const Comparison& comparison);

// Returns the facts that were measured for no policy, each with the reason: "MFU (the FLOPs of the model are not
// known)".
std::vector<std::string> NotMeasured(const Comparison& comparison);

// Returns everything else that a report says in words, one or two sentences per entry: warnings, notes, where the noise
// comes from, and what was not measured.
std::vector<std::string> Remarks(const Comparison& comparison);

// The table of the training losses as TensorBoard shows it, one row per run: its name, the smoothed and the last loss,
// the last step, the wall time from the first point to the last, and the peak memory.
inline const std::vector<std::string> kRunHeadings = {"RUN", "SMOOTHED", "VALUE", "STEP", "TIME", "MEMORY"};
std::vector<std::vector<std::string>> RunRows(const Comparison& comparison);

// Returns the name of a run: that of its policy and, if that has several, the seed: "bf16 seed 1".
std::string RunName(const PolicyRuns& policy, const RunFacts& run);

// Returns the report for a terminal of `width` columns; 0: for a file, in which tables are as wide as they need.
std::string TextReport(const Comparison& comparison, int width = 0);
std::string MarkdownReport(const Comparison& comparison);
// Returns one self-contained page with the curves as SVG, for light and dark screens, without scripts.
std::string HtmlReport(const Comparison& comparison);
// Returns the report as JSON: indented, or on one line.
std::string JsonReport(const Comparison& comparison, bool indented);
// Returns the same report as YAML, with names in snake_case.
std::string YamlReport(const Comparison& comparison);

}  // namespace ampd::client
