#include "client/cli/answers/safe_answers.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/own_words.h"
#include "client/cli/answers/several_jobs.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMaxNames = 4;  // A longer answer is no help.

// Commands of ampctl that end, delete or stop something, each with the command that shows what they act on.
constexpr struct {
  std::string_view path;
  const char* see;  // If it ends in a space, the name follows.
} kDestructive[] = {
    {"job cancel", "job show "},
    {"job delete", "job show "},
    {"job pause", "job show "},
    {"worker drain", "worker list"},
    {"worker undrain", "worker list"},
    {"worker remove", "worker list"},
    {"auth token revoke", "auth token list"},
    {"checkpoint delete", "checkpoint list "},
    {"artifact delete", "artifact list"},
};

// Options of other programs that select jobs.
constexpr struct {
  std::string_view commands;
  std::string_view options;
} kSelections[] = {
    {"delete|del", "-l|--selector|--field-selector"},
    {"scancel",
     "-u|--user|--users|--me|-t|--state|--states|-p|--partition|-n|--name|--jobname|-w|--nodelist|-A|--account|-q|--"
     "qos|"
     "-R|--reservation"},
    {"bkill|bstop", "-u|-q|-m|-J|-g|-app|-G|-P"},
    {"qdel", "-u|-q"},
};

// Options that name a server or a tenant. Their values may be names that ampctl does not accept.
constexpr std::string_view kPlaces = "-n|--namespace|--tenant|--context|--server|--cluster|--clusters|-M|--address";

// A command of ampctl that an answer suggests, and that ends, deletes or stops something.
struct Call {
  std::string path;   // "job cancel"
  std::string see;    // kDestructive
  std::string list;   // the command in front of `| xargs`, whose jobs it gets; empty: there is none
  Words names;        // without placeholders
  std::string where;  // its options --address and --tenant: " --tenant vision"
};

// Parses the command line `text`. The result's `path` is empty if the command ends, deletes or stops nothing.
Call CallOfWords(const std::string& text) {
  Call call;
  for (const auto& [path, see] : kDestructive) {
    if (absl::StartsWith(text + " ", absl::StrCat("ampctl ", std::string(path), " "))) {
      call.path = std::string(path);
      call.see = see;
    }
  }
  const Words words = absl::StrSplit(text.substr(std::min(text.size(), call.path.size() + 7)), ' ', absl::SkipEmpty());
  bool has_options = false;
  for (size_t i = 0; i < words.size(); ++i) {
    has_options = has_options || words[i].starts_with('-');
    if (!has_options && !IsPlaceholder(words[i])) {
      call.names.push_back(words[i]);
    }
    if ((words[i] == "--tenant" || words[i] == "--address") && i + 1 < words.size()) {
      absl::StrAppend(&call.where, " ", words[i], " ", words[i + 1]);
    }
  }
  return call;
}

// Returns the commands in the advice that end, delete or stop something.
std::vector<Call> CallsIn(const std::string& advice) {
  std::vector<Call> calls;
  for (const absl::string_view sentence : absl::StrSplit(advice, absl::ByString("; "))) {
    const size_t begin = sentence.find(": ampctl ");
    if (begin == sentence.npos) {
      continue;
    }
    const std::string line(sentence.substr(begin + 2));
    const Words halves = absl::StrSplit(line, absl::MaxSplits(absl::ByString(" | xargs -r "), 1));
    for (const absl::string_view part : absl::StrSplit(halves.back(), absl::ByString(" && "))) {
      Call call = CallOfWords(std::string(absl::StripPrefix(part, "-n 1 ")));
      if (!call.path.empty()) {
        call.list = halves.size() > 1 ? absl::StrReplaceAll(halves[0], {{"job list -q", "job list"}}) : "";
        calls.push_back(call);
      }
    }
  }
  return calls;
}

// Returns the command of another program in `words`.
std::string CommandIn(const Words& words) { return words[words.size() > 1 && IsProgram(words[0]) ? 1 : 0]; }

// Returns the first option in `words` that is one of `options`; "" if there is none. Sets `value` to its value.
std::string OptionIn(const Words& words, std::string_view options, std::string* value) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const size_t equals = words[i].find('=');
    if (words[i].starts_with('-') && IsOneOf(words[i].substr(0, equals), options)) {
      *value = equals != std::string::npos ? words[i].substr(equals + 1) : i + 1 < words.size() ? words[i + 1] : "";
      return words[i].substr(0, equals);
    }
  }
  return "";
}

// Returns the sentence for a command that selects workers by labels, or that drains only some of a worker's jobs. Empty
// for other commands.
std::string AboutWorkers(const Call& call, const Words& words) {
  std::string value;
  if (!call.path.starts_with("worker ")) {
    return "";
  }
  if (!OptionIn(words, "-l|--selector", &value).empty()) {
    return absl::StrCat("workers have no labels; to list the workers: ampctl worker list", call.where);
  }
  return OptionIn(words, "--pod-selector", &value).empty() || call.path != "worker drain"
             ? ""
             : absl::StrCat(
                   "ampctl worker drain moves all jobs of a worker; to list these jobs: ampctl job list --filter "
                   "worker=",
                   call.names.empty() ? "NAME" : call.names.front(), call.where);
}

// Returns the sentence for a signal that does not end a job.
std::string AboutSignal(const Call& call, const Words& words) {
  std::string value;
  const bool takes_signal = IsOneOf(CommandIn(words), "scancel|bkill|kill") && call.path == "job cancel";
  if (!takes_signal || OptionIn(words, "-s|--signal", &value).empty()) {
    return "";
  }
  const std::string signal(absl::StripPrefix(absl::AsciiStrToUpper(value), "SIG"));
  const std::string jobs = absl::StrCat(call.names.empty() ? "ID" : absl::StrJoin(call.names, " "), call.where);
  return IsOneOf(signal, "KILL|9|TERM|15") ? ""
                                           : absl::StrCat("a job gets no signals; to pause it: ampctl job pause ", jobs,
                                                          "; to cancel it: ampctl job cancel ", jobs);
}

// Returns how to see what the calls act on: "to see it: ampctl job show x".
std::string ToSee(const std::vector<Call>& calls) {
  std::string text;
  for (const Call& call : calls) {
    if (!call.list.empty()) {
      absl::StrAppend(&text, "; to list the jobs that it would ", call.path.substr(call.path.rfind(' ') + 1), ": ",
                      call.list);
    }
  }
  Words lines;
  for (const Call& call : calls) {
    const Words names = call.names.empty() ? Words{call.see == "job show " ? "ID" : "JOB"} : call.names;
    for (const std::string& name : names) {
      const bool has_name = call.see.ends_with(' ');
      const std::string line =
          absl::StrCat("ampctl ", call.see, has_name ? name.substr(0, name.find('@')) : "", call.where);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
        lines.push_back(line);
      }
    }
  }
  if (text.empty() && lines.size() <= kMaxNames) {
    return absl::StrCat(lines.size() > 1 ? "; to see them: " : "; to see it: ", absl::StrJoin(lines, " && "));
  }
  return text.empty() ? "; to list jobs: ampctl job list" + calls.front().where : text;
}

// Returns the sentence for an option that asks to show what would happen, or to ask before each step.
std::string AboutDryRun(const std::vector<Call>& calls, const Words& words) {
  std::string value;
  const bool has_short_name = IsOneOf(CommandIn(words), "scancel|delete");
  const std::string option =
      OptionIn(words, has_short_name ? "--dry-run|--interactive|-i" : "--dry-run|--interactive", &value);
  if (option.empty()) {
    return "";
  }
  Words paths;
  for (const Call& call : calls) {
    if (std::find(paths.begin(), paths.end(), "ampctl " + call.path) == paths.end()) {
      paths.push_back("ampctl " + call.path);
    }
  }
  return absl::StrCat(absl::StrJoin(paths, " and "), paths.size() > 1 ? " have no " : " has no ", option, ToSee(calls));
}

// Whether the user selects jobs in a way that the call does not follow: by names and filters together, or by a filter,
// a server or a tenant among the options `dropped`.
bool SelectsLess(const Call& call, const Words& words, const Words& dropped) {
  const std::string command = CommandIn(words);
  const bool is_elsewhere =
      std::any_of(dropped.begin(), dropped.end(), [](const std::string& one) { return IsOneOf(one, kPlaces); });
  if (is_elsewhere && call.path.starts_with("job ") && (!call.names.empty() || !call.list.empty())) {
    return true;
  }
  for (const auto& [commands, options] : kSelections) {
    std::string value;
    if (!IsOneOf(command, commands) || OptionIn(words, options, &value).empty()) {
      continue;
    }
    const bool is_dropped = std::any_of(dropped.begin(), dropped.end(),
                                        [&options = options](const std::string& one) { return IsOneOf(one, options); });
    if (!call.names.empty() || (is_dropped && !call.list.empty())) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string ListOfJobs(const CLI::App& root, const Words& words, const Words& names) {
  const std::string list = WithOwnWords(*CommandOf(root, "job list"), "job list", InOwnSyntax(root, words));
  Words terms;
  for (const std::string& name : names) {
    if (name != "0") {  // In bkill, 0 stands for all jobs.
      terms.push_back(absl::StrCat("id=", name, " OR name=", name));
    }
  }
  return terms.empty() ? list : WithTerms(list, absl::StrJoin(terms, " OR "));
}

SafeAnswer InsteadOf(const CLI::App& root, const std::string& advice, const Words& words, const Words& dropped) {
  const std::vector<Call> calls = CallsIn(advice);
  if (calls.empty()) {
    return {};
  }
  std::string text = AboutWorkers(calls.front(), words);
  text = text.empty() ? AboutSignal(calls.front(), words) : text;
  if (!text.empty()) {
    return {text, false, true};
  }
  if (SelectsLess(calls.front(), words, dropped)) {
    return {absl::StrCat("to see these jobs: ", ListOfJobs(root, words, calls.front().names)), true, false};
  }
  return {AboutDryRun(calls, words), false, false};
}

std::string InServerAndTenant(const CLI::App& root, const std::string& advice, const Words& words) {
  if (!absl::StrContains(advice, " | xargs -r ")) {
    return advice;
  }
  const CLI::App& list = *CommandOf(root, "job list");
  const Words typed = InOwnSyntax(root, words);
  std::string result = advice;
  for (const char* const option : {"--tenant", "--address"}) {
    const std::string value = OwnValue(list, option, typed);
    if (value.empty()) {
      continue;
    }
    Words sentences = absl::StrSplit(result, absl::ByString("; "));
    for (std::string& sentence : sentences) {
      Words halves = absl::StrSplit(sentence, absl::ByString(" | xargs -r "));
      for (std::string& half : halves) {
        const size_t command = half.find("ampctl job ");
        const size_t verb_end = std::min(half.size(), half.find(' ', command + 11));
        const size_t end = half.compare(verb_end, 3, " -q") == 0 ? verb_end + 3 : verb_end;
        if (halves.size() == 2 && command != std::string::npos && !absl::StrContains(half, option)) {
          half.insert(end, absl::StrCat(" ", option, " ", value));
        }
      }
      sentence = absl::StrJoin(halves, " | xargs -r ");
    }
    result = absl::StrJoin(sentences, "; ");
  }
  return result;
}

}  // namespace ampd::client
