#include "client/jobfile/problems_text.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxProblemsShown = 20;
constexpr size_t kMaxProblemsBytes = 3072;  // After this many bytes, no further problem is shown.

std::string AllowedText(const std::vector<std::string>& allowed) {
  constexpr size_t kMaxShown = 24;
  const size_t shown = std::min(allowed.size(), kMaxShown);
  return absl::StrCat("(allowed: ", absl::StrJoin(allowed.begin(), allowed.begin() + shown, ", "),
                      shown < allowed.size() ? ", ...)" : ")");
}

// Returns the problem's message, to be printed after `place`. Removes the field's path from the beginning of the
// message if `place` already ends with the path ("--set PATH").
std::string MessageAfterPlace(const std::string& place, const Problem& problem) {
  absl::string_view message = problem.message;
  const bool is_named = !problem.field.empty() &&
                        (absl::EndsWith(place, " " + problem.field) || place == absl::StrCat("--", problem.field));
  if (is_named &&
      (absl::ConsumePrefix(&message, problem.field + ": ") || absl::ConsumePrefix(&message, problem.field + " "))) {
    return std::string(message);
  }
  return problem.message;
}

// Returns the problem as lines for people. Uses Printable, because texts from the file may contain terminal control
// sequences. `shown_lists` has the lists of allowed values that were shown before.
std::string ProblemText(const Problem& problem, std::set<std::vector<std::string>>* shown_lists) {
  const std::string place = problem.mark.ToString();
  std::string text =
      absl::StrCat("error: ", Printable(place), ": ", Printable(MessageAfterPlace(place, problem)), "\n");
  const bool shows_list = !problem.allowed.empty() && shown_lists->insert(problem.allowed).second;
  const std::string allowed = shows_list ? AllowedText(problem.allowed) : "";
  if (!problem.nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", Printable(problem.nearest), "'?", allowed.empty() ? "" : "   ", allowed,
                    "\n");
  } else if (!allowed.empty()) {
    absl::StrAppend(&text, "  ", allowed, "\n");
  }
  return text;
}

// Returns the option in which the problem is, "--set" or "--name"; empty if it is in the file.
std::string OptionOf(const Problem& problem) {
  const std::string& source = problem.mark.source;
  return source.starts_with("--set ") ? "--set" : source == "--name" ? source : "";
}

// Returns the sentence that says what the user should correct, and what to do after that.
std::string AdviceText(const std::vector<Problem>& problems, const ProblemAdvice& advice) {
  std::set<std::string> options;
  for (const Problem& problem : problems) {
    options.insert(OptionOf(problem));
  }
  if (options.size() == 1 && !options.begin()->empty()) {
    return absl::StrCat("correct the ", *options.begin(), ", and repeat the command");
  }
  const std::string what = problems.size() == 1 ? "it" : "them";
  const bool is_in_file_only = options.size() == 1 && advice.notes.empty();
  return is_in_file_only && !advice.command.empty() ? absl::StrCat("correct ", what, ", then ", advice.command)
                                                    : absl::StrCat("correct ", what, ", and repeat the command");
}

}  // namespace

std::string ProblemsText(const std::vector<Problem>& problems, const ProblemAdvice& advice) {
  std::string text;
  std::set<std::vector<std::string>> shown_lists;
  size_t shown = 0;
  for (; shown < std::min(problems.size(), kMaxProblemsShown) && text.size() < kMaxProblemsBytes; ++shown) {
    text += ProblemText(problems[shown], &shown_lists);
  }
  if (shown < problems.size()) {
    absl::StrAppend(&text, "error: and ", problems.size() - shown,
                    problems.size() - shown == 1 ? " more problem\n" : " more problems\n");
  }
  for (const std::string& note : advice.notes) {
    absl::StrAppend(&text, "  ", Printable(note), "\n");
  }
  absl::StrAppend(&text, "  try: ", Printable(AdviceText(problems, advice)), "\n");
  return text;
}

void ExplainLookAlikeIn(const std::map<std::string, std::vector<LookAlike>>& look_alikes, Problem* problem) {
  const auto in_place = look_alikes.find(problem->mark.source);
  if (in_place == look_alikes.end()) {
    return;
  }
  // If a problem concerns a whole override, its message does not quote the override: SourceMark::source already does.
  const bool is_of_whole = problem->field.empty() && problem->mark.line == 0;
  const std::string text = absl::StrCat(problem->message, is_of_whole ? problem->mark.source : "");
  const std::vector<LookAlike>& all = in_place->second;
  const auto quoted = std::find_if(all.begin(), all.end(), [&](const LookAlike& one) {
    return one.line == problem->mark.line && one.column >= problem->mark.column &&
           (absl::StrContains(text, one.character) || absl::StrContains(text, OneLine(one.character)));
  });
  if (quoted != all.end() && !absl::StrContains(problem->message, quoted->code)) {
    absl::StrAppend(&problem->message, "; ", ExplainLookAlike(*quoted));
  }
}

}  // namespace ampd::client
