#pragma once

#include <string>
#include <vector>

#include "client/compare/comparison.h"
#include "client/compare/verdict.h"

namespace ampd::client {

// A finished comparison, from which every format of the report is made.
struct Comparison {
  std::string id;     // Value of the jobs' label kCompareLabel; empty: the user named the jobs one by one.
  std::string model;  // Name of what was trained: the beginning that the jobs' names share.
  Rates rates;
  std::vector<PolicyRuns> policies;
  Verdict verdict;
};

// Returns one line that says what was compared: "Comparison c-1a2b3c4d: 3 runs of each policy on w1/cpu, AMD EPYC, 2
// threads".
std::string SubjectText(const Comparison& comparison);

// A fact about all policies, such as their times.
struct FactRow {
  std::string name;
  std::vector<std::string> cells;  // One per policy; "not measured" if there is no value.
};

// Returns the facts of the policies. Where it helps, a cell has the value, two spaces, and the difference from the
// baseline in percent. Facts that were measured for no policy are omitted (NotMeasured).
std::vector<FactRow> FactRows(const Comparison& comparison);

// Returns the facts that were measured for no policy, each with the reason: "MFU (the FLOPs of the model are not
// known)".
std::vector<std::string> NotMeasured(const Comparison& comparison);

// Returns the remarks of a report, one or two sentences each: warnings, notes, the source of the noise, and what was
// not measured.
std::vector<std::string> Remarks(const Comparison& comparison);

// The headings of the table of training losses, which has one row per run and the columns that TensorBoard shows: the
// run's name, its smoothed and its last loss, its last step, the wall time from the first point to the last, and the
// peak memory.
inline const std::vector<std::string> kRunHeadings = {"RUN", "SMOOTHED", "VALUE", "STEP", "TIME", "MEMORY"};
std::vector<std::vector<std::string>> RunRows(const Comparison& comparison);

// Returns the name of a run: its policy's name and, if the policy has several runs, the seed: "bf16 seed 1".
std::string RunName(const PolicyRuns& policy, const RunFacts& run);

// Returns the report for a terminal of `width` columns. With 0 columns, returns it for a file, in which tables are as
// wide as their content.
std::string TextReport(const Comparison& comparison, int width = 0);
std::string MarkdownReport(const Comparison& comparison);
// Returns the report as one self-contained HTML page, with the curves as SVG, for light and dark screens, without
// scripts.
std::string HtmlReport(const Comparison& comparison);
// Returns the report as JSON: indented, or on one line.
std::string JsonReport(const Comparison& comparison, bool indented);
// Returns the report as YAML, with names in snake_case.
std::string YamlReport(const Comparison& comparison);

}  // namespace ampd::client
