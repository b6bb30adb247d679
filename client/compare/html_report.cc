#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/compare/report.h"
#include "client/compare/svg_chart.h"
#include "client/compare/verdict_text.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr int kNumColours = 8;

// The policies have the colours of Okabe and Ito, which colour-blind people can tell apart. The colours are lighter on
// dark screens.
constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #5b6470; --line: #d9dee4; --card: #f4f6f8;
  --good: #0b7a53; --s0: #3b4652; --s1: #0072b2; --s2: #d55e00; --s3: #009e73; --s4: #cc79a7; --s5: #b8860b;
  --s6: #3a9bd1; --s7: #7a5ca8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --soft: #9aa4b0; --line: #333a43;
  --card: #1d2228; --good: #4cc99a; --s0: #c3cbd5; --s1: #56b4e9; --s2: #f08a4b; --s3: #3fcf9f; --s4: #e59cc4;
  --s5: #e0b445; --s6: #8fd0f5; --s7: #b79be0; } }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
.sub, figcaption { color: var(--soft); margin: 0 0 1.25rem; }
.verdict { background: var(--card); border-left: 4px solid var(--good); border-radius: 4px; padding: .9rem 1.1rem; }
.verdict.none { border-color: var(--s2); }
.verdict p { margin: 0; }
.verdict b { font-size: 1.1rem; display: block; }
.bars { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1.5rem; margin-top: 1.5rem; }
.bars h3 { font-size: .95rem; margin: 0 0 .4rem; color: var(--soft); font-weight: 600; }
.bar { display: grid; grid-template-columns: 40% 1fr; align-items: center; gap: .6rem; font-size: .85rem; margin-bottom: .35rem; }
.bar span { overflow-wrap: anywhere; line-height: 1.2; }
.bar div { background: var(--card); border-radius: 2px; position: relative; height: 1.35rem; }
.bar i { position: absolute; inset: 0 auto 0 0; border-radius: 2px; opacity: .55; }
.bar em { position: absolute; left: .4rem; font-style: normal; line-height: 1.35rem; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
  font-variant-numeric: tabular-nums; }
thead th { border-bottom: 2px solid var(--line); }
td span { color: var(--soft); white-space: nowrap; }
tbody th { font-weight: 400; color: var(--soft); white-space: nowrap; }
th:first-child { padding-left: 0; }
.taken { background: var(--card); }
figure { margin: 1rem 0 0; }
figcaption { margin: 0 0 .25rem; }
svg { width: 100%; height: auto; display: block; }
svg svg { overflow: hidden; }
svg text { fill: var(--soft); font-size: 12px; }
path { fill: none; stroke-width: 2; stroke-linejoin: round; }
path.faint { stroke-width: 1; opacity: .22; }
.grid { stroke: var(--line); stroke-width: .6; }
.axis { stroke: var(--soft); stroke-width: 1; }
.legend { margin: .25rem 0 0 4rem; font-size: .9rem; }
.legend span { margin-right: 1rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; border-radius: 2px; }
li { margin: .3rem 0; }
@media (max-width: 40rem) { svg text { font-size: 20px; } .legend { margin-left: 0; } }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
)css";

std::string Colour(size_t policy) { return absl::StrCat("var(--s", policy % kNumColours, ")"); }

// Returns a bar chart of one value, with a bar for each policy; "" if the value was not measured for all policies.
std::string Bars(const Comparison& comparison, const std::string& title, std::optional<double> RunFacts::*value,
                 std::string (*text)(double)) {
  const bool is_time = value == &RunFacts::step_seconds;  // Emulation changes only times, so only they are marked.
  double most = 0;
  for (const PolicyRuns& policy : comparison.policies) {
    if (!policy.MeanOf(value).has_value()) {
      return "";
    }
    most = std::max(most, *policy.MeanOf(value));
  }
  std::string html = absl::StrCat("<div><h3>", title, "</h3>\n");
  for (size_t i = 0; i < comparison.policies.size(); ++i) {
    const PolicyRuns& policy = comparison.policies[i];
    const double of_policy = *policy.MeanOf(value);
    absl::StrAppendFormat(&html,
                          "<div class=\"bar\"><span>%s</span><div><i style=\"width:%.1f%%;background:%s\"></i>"
                          "<em>%s</em></div></div>\n",
                          HtmlText(policy.name), most > 0 ? 100 * of_policy / most : 0, Colour(i),
                          HtmlText(absl::StrCat(text(of_policy), is_time && policy.emulated() ? " (emulated)" : "")));
  }
  return html + "</div>\n";
}

std::string ShortBytes(double bytes) { return FormatBytes(std::llround(bytes)); }
std::string Accuracy(double share) { return absl::StrFormat("%.4f", share); }

// Returns a table cell: the value, and in a softer colour its difference from the baseline.
std::string CellText(const std::string& cell) {
  const size_t gap = cell.find("  ");
  return gap == std::string::npos
             ? HtmlText(cell)
             : absl::StrCat(HtmlText(cell.substr(0, gap)), " <span>", HtmlText(cell.substr(gap + 2)), "</span>");
}

std::string Table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                  std::optional<size_t> taken_column) {
  const auto open = [taken_column](const char* tag, size_t column) {
    return column == taken_column ? absl::StrCat("<", tag, " class=\"taken\">") : absl::StrCat("<", tag, ">");
  };
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t i = 0; i < headings.size(); ++i) {
    absl::StrAppend(&html, open("th", i), HtmlText(headings[i]), "</th>");
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const char* const tag = i == 0 ? "th" : "td";
      absl::StrAppend(&html, open(tag, i), CellText(row[i]), "</", tag, ">");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string FactTableHtml(const Comparison& comparison) {
  std::vector<std::string> headings = {""};
  for (const PolicyRuns& policy : comparison.policies) {
    headings.push_back(policy.name);
  }
  std::vector<std::vector<std::string>> rows;
  for (const FactRow& fact : FactRows(comparison)) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fact.name});
    row.insert(row.end(), fact.cells.begin(), fact.cells.end());
  }
  const auto& recommended = comparison.verdict.recommended;
  return Table(headings, rows, recommended.has_value() ? std::optional(*recommended + 1) : std::nullopt);
}

std::vector<CurvePoint> SmoothedCurve(const std::vector<CurvePoint>& curve) {
  std::vector<double> values;
  for (const CurvePoint& point : curve) {
    values.push_back(point.value);
  }
  values = Smoothed(values);
  std::vector<CurvePoint> smoothed = curve;
  for (size_t i = 0; i < smoothed.size(); ++i) {
    smoothed[i].value = values[i];
  }
  return smoothed;
}

std::string Charts(const Comparison& comparison) {
  std::vector<ChartSeries> losses;
  std::vector<ChartSeries> evals;
  for (size_t i = 0; i < comparison.policies.size(); ++i) {
    const PolicyRuns& policy = comparison.policies[i];
    const int colour = static_cast<int>(i % kNumColours);
    for (const RunFacts& run : policy.runs) {
      losses.push_back({policy.name, colour, SmoothedCurve(run.losses), run.losses});
      evals.push_back({policy.name, colour, run.evals, {}});
    }
  }
  return absl::StrCat(SvgChart("Training loss: smoothed (strong) and of each step (faint)", losses),
                      SvgChart("Loss on the evaluation data", evals));
}

std::string JobList(const Comparison& comparison) {
  std::string html;
  for (const PolicyRuns& policy : comparison.policies) {
    for (const RunFacts& run : policy.runs) {
      absl::StrAppend(&html, html.empty() ? "" : ", ", HtmlText(RunName(policy, run)), " ", HtmlText(run.job_id));
    }
  }
  return html;
}

}  // namespace

std::string HtmlReport(const Comparison& comparison) {
  const Verdict& verdict = comparison.verdict;
  const std::string title = HtmlText("Precision policies for " + comparison.model);
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      title, "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<h1>", title, "</h1>\n<p class=\"sub\">",
      HtmlText(SubjectText(comparison)), "</p>\n<div class=\"verdict", verdict.recommended.has_value() ? "" : " none",
      "\"><p><b>", HtmlText(verdict.choice), "</b>", HtmlText(verdict.reason), "</p></div>\n<div class=\"bars\">\n",
      Bars(comparison, "Time of the steps", &RunFacts::step_seconds, SecondsText),
      Bars(comparison, "Peak memory", &RunFacts::peak_memory_bytes, ShortBytes),
      Bars(comparison, "Accuracy", &RunFacts::eval_accuracy, Accuracy), "</div>\n<h2>Curves</h2>\n");
  absl::StrAppend(&html, Charts(comparison), "<h2>Facts</h2>\n", FactTableHtml(comparison),
                  "<h2>Training loss of each run</h2>\n",
                  Table({"run", "smoothed", "value", "step", "time", "memory"}, RunRows(comparison), std::nullopt),
                  "<h2>Notes</h2>\n<ul>\n");
  for (const std::string& remark : Remarks(comparison)) {
    absl::StrAppend(&html, "<li>", HtmlText(remark), "</li>\n");
  }
  return absl::StrCat(html, "</ul>\n<footer>Made by ampctl compare. Jobs: ", JobList(comparison),
                      ".</footer>\n</body>\n</html>\n");
}

}  // namespace ampd::client
