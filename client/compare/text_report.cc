// The report for a terminal and the report in Markdown.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/compare/report.h"
#include "client/render/format.h"
#include "client/render/table.h"
#include "client/render/wrap.h"

namespace ampd::client {
namespace {

constexpr int kTextWidth = 100;  // Width of the sentences in a file.

std::vector<std::string> PolicyNames(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const PolicyRuns& policy : comparison.policies) {
    names.push_back(Printable(policy.name));
  }
  return names;
}

// Returns the table of facts: a row per fact, a column per policy.
std::vector<std::vector<std::string>> FactCells(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (const FactRow& fact : FactRows(comparison)) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fact.name});
    row.insert(row.end(), fact.cells.begin(), fact.cells.end());
  }
  return rows;
}

// Escapes names and messages of other programs, so that Markdown shows them as they are.
std::string MarkdownText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"},
                                    {"|", "\\|"},
                                    {"*", "\\*"},
                                    {"_", "\\_"},
                                    {"`", "\\`"},
                                    {"[", "\\["},
                                    {"]", "\\]"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"&", "&amp;"}});
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::vector<std::string> texts;
  std::transform(cells.begin(), cells.end(), std::back_inserter(texts), MarkdownText);
  return absl::StrCat("| ", absl::StrJoin(texts, " | "), " |\n");
}

std::string MarkdownTable(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows) {
  std::string text = MarkdownRow(headings);
  absl::StrAppend(&text, "|", absl::StrJoin(std::vector<std::string>(headings.size(), " --- |"), ""), "\n");
  for (const std::vector<std::string>& row : rows) {
    text += MarkdownRow(row);
  }
  return text;
}

}  // namespace

std::string TextReport(const Comparison& comparison, int width) {
  const int text_width = width > 0 ? width : kTextWidth;
  std::vector<std::string> headings = PolicyNames(comparison);
  headings.insert(headings.begin(), "");
  std::string text = absl::StrCat(WrapLines(SubjectText(comparison), width), "\n\n",
                                  RenderTable(headings, FactCells(comparison), /*headings=*/true, width), "\n",
                                  "Training loss of each run:\n",
                                  RenderTable(kRunHeadings, RunRows(comparison), /*headings=*/true, width), "\n");
  for (const std::string& remark : Remarks(comparison)) {
    text += WrapLines(Printable(remark), text_width) + "\n";
  }
  return text + "\n" + WrapLines(Printable(comparison.verdict.choice + " " + comparison.verdict.reason), text_width) +
         "\n";
}

std::string MarkdownReport(const Comparison& comparison) {
  std::vector<std::string> headings = PolicyNames(comparison);
  headings.insert(headings.begin(), "");
  std::string text = absl::StrCat(
      "# Precision policies for ", MarkdownText(Printable(comparison.model)), "\n\n**",
      MarkdownText(Printable(comparison.verdict.choice)), "** ", MarkdownText(Printable(comparison.verdict.reason)),
      "\n\n", MarkdownText(SubjectText(comparison)), "\n\n", MarkdownTable(headings, FactCells(comparison)),
      "\n## Training loss of each run\n\n", MarkdownTable(kRunHeadings, RunRows(comparison)), "\n## Notes\n\n");
  for (const std::string& remark : Remarks(comparison)) {
    absl::StrAppend(&text, "* ", MarkdownText(Printable(remark)), "\n");
  }
  return text;
}

}  // namespace ampd::client
