#include "client/cli/several_jobs.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/command_words.h"
#include "client/cli/foreign_words.h"
#include "client/cli/own_words.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMaxCalls = 4;  // A longer answer is no help.

// The verbs of commands that take the ids of several jobs.
constexpr const char* kVerbs[] = {"cancel", "pause", "resume", "delete", "wait"};

// Whether the command reads one job, so that several jobs need a call each.
bool ReadsOneJob(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path == "job logs" || path == "job show" || path == "job events" || path == "job points";
}

// Adds the user's option --tenant to the commands `ampctl job list -q` and `xargs -r ampctl job VERB` in `answer`, a
// hint that ampctl prints.
std::string InTenantOf(const CLI::App& root, const Words& rest, const std::string& answer) {
  const std::string tenant = OwnValue(*CommandOf(root, "job list"), "--tenant", rest);
  if (tenant.empty()) {
    return answer;
  }
  const std::string option = " --tenant " + tenant;
  std::string result = absl::StrReplaceAll(answer, {{"ampctl job list -q", "ampctl job list -q" + option}});
  for (const char* const verb : kVerbs) {
    const std::string call = absl::StrCat("xargs -r ampctl job ", verb);
    result = absl::StrReplaceAll(result, {{call, call + option}});
  }
  return result;
}

// Whether the word may name a job or worker that the command takes. A setting after a name, such as
// key=value:NoSchedule, is no name. Nor is a number, except for a job.
bool MayBeName(const CLI::App& command, const std::string& word) {
  const bool is_number = std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
  return word.find_first_of("=:") == std::string::npos && (!is_number || PathOf(command).starts_with("job "));
}

// Returns one call for each of the names; empty if there are too many.
std::string OneCallEach(const CLI::App& command, const std::string& text, const Words& rest, const Words& names) {
  if (names.size() > kMaxCalls) {
    return "";
  }
  Words calls;
  for (const std::string& name : names) {
    Words one = rest;
    std::erase_if(one, [&](const std::string& word) {
      return word != name && std::find(names.begin(), names.end(), word) != names.end();
    });
    calls.push_back(WithOwnWords(command, text, one));
  }
  return absl::StrCat("for each of them: ", absl::StrJoin(calls, " && "));
}

}  // namespace

std::string CallsForSeveralJobs(const CLI::App& root, const CLI::App& command, const std::string& text,
                                const Words& rest) {
  for (const std::string& word : rest) {
    const bool is_all = word == "--all" || word.starts_with("--all=");
    const std::string answer = is_all ? AnswerToOption(PathOf(command), "--all") : "";
    if (!answer.empty()) {
      return InTenantOf(root, rest, answer);
    }
  }
  const bool takes_many = PathOf(command).starts_with("job ") && TakesManyNames(command);
  const Words names = OwnNames(command, rest);
  constexpr std::string_view kTakeOneName[] = {"job show", "job events", "job points", "worker drain",
                                               "worker undrain"};
  const bool takes_one =
      std::find(std::begin(kTakeOneName), std::end(kTakeOneName), PathOf(command)) != std::end(kTakeOneName);
  if (takes_one && names.size() > 1 && std::all_of(names.begin(), names.end(), [&command](const std::string& name) {
        return MayBeName(command, name);
      })) {
    return OneCallEach(command, text, rest, names);
  }
  if ((!takes_many && !ReadsOneJob(command)) || !names.empty()) {
    return "";
  }
  const std::string list = WithOwnWords(*CommandOf(root, "job list"), "job list -q", rest);
  if (!absl::StrContains(list, " --filter ")) {
    return "";
  }
  Words parts = absl::StrSplit(text, ' ');
  std::erase_if(parts, [](const std::string& part) { return part == "ID" || part == "ID..."; });
  const std::string tenant = OwnValue(*CommandOf(root, "job list"), "--tenant", rest);
  return absl::StrCat(
      takes_many ? absl::StrCat("to ", command.get_name(), " all such jobs: ") : "for each such job: ", list,
      takes_many ? " | xargs -r ampctl " : " | xargs -r -n 1 ampctl ", absl::StrJoin(parts, " "),
      tenant.empty() ? "" : absl::StrCat(" --tenant ", tenant), command.get_name() == "delete" ? " -y" : "");
}

std::string AnswerToSelection(const std::string& command, const std::string& option, const std::string& value) {
  const bool takes_ids = std::any_of(std::begin(kVerbs), std::end(kVerbs),
                                     [&command](const char* verb) { return command == absl::StrCat("job ", verb); });
  const std::string selection = option == "--filter" ? absl::StrCat("--filter ", NeedsNoQuotes(value) ? value : "TERMS")
                                                     : RewrittenOption("job list", option, value);
  // In `job wait --state running`, the option selects no jobs.
  const bool has_own_meaning = !RewrittenOption(command, option, value).empty();
  if (!takes_ids || has_own_meaning || !selection.starts_with("--filter ")) {
    return "";
  }
  const std::string verb = command.substr(command.find(' ') + 1);
  return absl::StrCat("to ", verb, verb == "wait" ? " for" : "", " all such jobs: ampctl job list -q ", selection,
                      " | xargs -r ampctl ", command, verb == "delete" ? " -y" : "");
}

}  // namespace ampd::client
