#include "client/cli/answers/several_jobs.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/own_words.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMaxCalls = 4;  // A longer answer is no help.

// A command that takes the ids of several jobs, and the jobs for which it is made.
struct Verb {
  const char* name;
  const char* purpose;  // how the help says it with all these jobs
  const char* filter;   // the option of `ampctl job list` that selects these jobs by their states
};
constexpr Verb kVerbs[] = {
    {"cancel", "cancel all jobs that have not ended", kFilterNotEnded},
    {"pause", "pause all jobs that run or wait", "--filter 'state=running OR state=queued'"},
    {"resume", "resume all paused jobs", "--filter state=paused"},
    {"delete", "delete all jobs that have ended", "--filter 'state=succeeded OR state=failed OR state=cancelled'"},
    {"wait", "wait for all jobs that have not ended", kFilterNotEnded},
};

// Returns the verb of the command "job VERB"; null if the command does not take several jobs.
const Verb* VerbOf(const std::string& command) {
  const auto* const found = std::find_if(std::begin(kVerbs), std::end(kVerbs), [&command](const Verb& verb) {
    return command == absl::StrCat("job ", verb.name);
  });
  return found == std::end(kVerbs) ? nullptr : found;
}

// Returns the terms of an option --filter without their quotes.
std::string TermsOf(std::string_view filter) {
  const std::string terms(filter.substr(std::string_view("--filter ").size()));
  return terms.starts_with('\'') ? terms.substr(1, terms.size() - 2) : terms;
}

// Whether the terms of a filter select jobs by their state.
bool HaveState(const std::string& terms) {
  const std::vector<std::string> words = absl::StrSplit(terms, absl::ByAnyChar(" ()"));
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.starts_with("state=") || word.starts_with("state!="); });
}

// Returns the part of `call` that is the value of its option --filter.
std::string_view FilterIn(const std::string& call) {
  const size_t value = call.find("--filter ") + std::string_view("--filter ").size();
  const bool is_quoted = call[value] == '\'';
  const size_t end = std::min(call.size(), call.find(is_quoted ? '\'' : ' ', value + 1) + (is_quoted ? 1 : 0));
  return std::string_view(call).substr(value, end - value);
}

// Returns `call`, which has an option --filter, with a filter that selects only jobs in the states that the verb is
// made for. A filter that has a state, or that the user has to write, stays as it is.
std::string InStatesOf(const Verb& verb, const std::string& call) {
  const std::string terms = TermsOf("--filter " + std::string(FilterIn(call)));
  return HaveState(terms) || terms == "TERMS" ? call : WithTerms(call, TermsOf(verb.filter));
}

// Whether the command reads one job, so that several jobs need a call each.
bool ReadsOneJob(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path == "job logs" || path == "job show" || path == "job events" || path == "job points";
}

// Whether the word may name a job or worker that the command takes. A setting after a name, such as
// key=value:NoSchedule, is no name. Nor is a number, except for a job.
bool MayBeName(const CLI::App& command, const std::string& word) {
  const bool is_number = std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
  return word.find_first_of("=:") == std::string::npos && (!is_number || PathOf(command).starts_with("job "));
}

// Returns a command line for each of the names, for the user to type. Empty if there are too many names.
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

std::string WithTerms(const std::string& call, const std::string& terms) {
  if (!absl::StrContains(call, "--filter ")) {
    return absl::StrCat(call, " --filter '", terms, "'");
  }
  const auto grouped = [](const std::string& text) {
    return absl::StrContains(text, " OR ") ? absl::StrCat("(", text, ")") : text;
  };
  const std::string_view value = FilterIn(call);
  const std::string own = TermsOf("--filter " + std::string(value));
  const size_t begin = static_cast<size_t>(value.data() - call.data());
  return absl::StrCat(call.substr(0, begin), "'", grouped(own), " AND ", grouped(terms), "'",
                      call.substr(begin + value.size()));
}

std::string CallsForSeveralJobs(const CLI::App& root, const CLI::App& command, const std::string& text,
                                const Words& rest) {
  for (const std::string& word : rest) {
    const bool is_all = word == "--all" || word.starts_with("--all=");
    const bool acts = !PathOf(command).ends_with(" list");
    const std::string answer = is_all && acts ? AnswerToOption(PathOf(command), "--all") : "";
    if (!answer.empty()) {
      return answer;
    }
  }
  const bool takes_many = PathOf(command).starts_with("job ") && TakesManyNames(command);
  const Words names = OwnNames(command, rest);
  constexpr std::string_view kTakeOneName[] = {"job show",      "job events",   "job points",
                                               "job retry",     "job clone",    "job explain",
                                               "worker remove", "worker drain", "worker undrain"};
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
  std::string list = WithOwnWords(*CommandOf(root, "job list"), "job list -q", rest);
  if (!absl::StrContains(list, " --filter ")) {
    return "";
  }
  const Verb* const verb = VerbOf(PathOf(command));
  list = verb == nullptr ? list : InStatesOf(*verb, list);
  Words parts = absl::StrSplit(text, ' ');
  std::erase_if(parts, [](const std::string& part) { return part == "ID" || part == "ID..."; });
  return absl::StrCat(takes_many ? absl::StrCat("to ", command.get_name(), " all such jobs: ") : "for each such job: ",
                      list, takes_many ? " | xargs -r ampctl " : " | xargs -r -n 1 ampctl ", absl::StrJoin(parts, " "),
                      command.get_name() == "delete" ? " -y" : "");
}

std::string AnswerToSelection(const std::string& command, const std::string& option, const std::string& value) {
  const Verb* const verb = VerbOf(command);
  const std::string selection = option == "--filter" ? absl::StrCat("--filter ", NeedsNoQuotes(value) ? value : "TERMS")
                                                     : RewrittenOption("job list", option, value);
  // In `job wait --state running`, the option selects no jobs.
  const bool has_own_meaning = !RewrittenOption(command, option, value).empty();
  if (verb == nullptr || has_own_meaning || !selection.starts_with("--filter ")) {
    return "";
  }
  const std::string name = verb->name;
  return absl::StrCat("to ", name, name == "wait" ? " for" : "", " all such jobs: ampctl job list -q ",
                      InStatesOf(*verb, selection), " | xargs -r ampctl ", command, name == "delete" ? " -y" : "");
}

std::string AnswerToAll(const std::string& command) {
  const Verb* const verb = VerbOf(command);
  return verb == nullptr
             ? ""
             : absl::StrCat("to ", verb->purpose, ": ampctl job list -q ", verb->filter, " | xargs -r ampctl ", command,
                            std::string_view(verb->name) == "delete" ? " -y" : "");
}

}  // namespace ampd::client
