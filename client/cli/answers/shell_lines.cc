#include "client/cli/answers/shell_lines.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_words.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kSubmitCall = "ampctl job submit ";

// When a job may start that depends on others.
enum class Start { kAfterSuccess, kAfterEnd, kAfterFailure, kAfterStart };

// The words with which Slurm, PBS and LSF say when a job may start.
constexpr struct {
  std::string_view words;
  Start start;
} kStarts[] = {
    {"afterok|aftercorr|done", Start::kAfterSuccess},
    {"afterany|ended", Start::kAfterEnd},
    {"afternotok|exit", Start::kAfterFailure},
    {"after|started", Start::kAfterStart},
};

// The jobs that a job depends on, by what must have happened to them.
struct Dependencies {
  std::map<Start, Words> ids;
  std::string delay;  // minutes between the start of the other jobs and that of the job; empty: none
};

// Adds what the clause says to `result`: afterok:5:6, LSF's done(5), or an id alone. Returns false if the clause is
// none of these.
bool AddClause(const std::string& clause, Dependencies* result) {
  const size_t end_of_kind = clause.find_first_of(":(");
  const bool is_id = end_of_kind == std::string::npos;
  const std::string kind = clause.substr(0, end_of_kind);
  const auto* const row = std::find_if(std::begin(kStarts), std::end(kStarts),
                                       [&kind](const auto& one) { return IsOneOf(kind, one.words); });
  if (!is_id && row == std::end(kStarts)) {
    return false;
  }
  Words& ids = result->ids[is_id ? Start::kAfterEnd : row->start];
  const std::string text = is_id ? clause : clause.substr(end_of_kind + 1);
  for (const std::string& word : Words(absl::StrSplit(absl::StripSuffix(text, ")"), ':', absl::SkipEmpty()))) {
    const size_t plus = word.find('+');
    result->delay = plus == std::string::npos ? result->delay : word.substr(plus + 1);
    ids.push_back(word.substr(0, plus));
  }
  return !ids.empty() && std::all_of(ids.begin(), ids.end(), NeedsNoQuotes);
}

// Returns what to put in front of a call so that it waits for other jobs. `value` is the value of an option of another
// program: "afterok:5". `name` is the job's own name, for "singleton". `where` are the options that name the server and
// the tenant.
std::string WaitFor(const std::string& value, const std::string& name, const std::string& where) {
  const std::string wait = absl::StrCat("ampctl job wait", where, " ");
  if (value == "singleton") {
    return absl::StrCat(wait, name, "; ");
  }
  Dependencies dependencies;
  const std::string clauses(absl::StripPrefix(value, "depend="));
  bool is_known = !absl::StrContains(clauses, "=");
  for (const absl::string_view clause : absl::StrSplit(clauses, ',', absl::SkipEmpty())) {
    is_known = is_known && AddClause(std::string(clause), &dependencies);
  }
  std::map<Start, Words>& ids = dependencies.ids;
  if (!is_known || ids.empty() || (ids.contains(Start::kAfterFailure) && ids.size() > 1)) {
    return absl::StrCat(wait, "ID && ");
  }
  std::string line;
  if (ids.contains(Start::kAfterEnd)) {
    absl::StrAppend(&line, wait, absl::StrJoin(ids[Start::kAfterEnd], " "), "; ");
  }
  if (ids.contains(Start::kAfterSuccess)) {
    absl::StrAppend(&line, wait, absl::StrJoin(ids[Start::kAfterSuccess], " "), " && ");
  }
  if (ids.contains(Start::kAfterStart)) {
    absl::StrAppend(&line, wait, "--for RUNNING ", absl::StrJoin(ids[Start::kAfterStart], " "), " && ",
                    dependencies.delay.empty() ? "" : absl::StrCat("sleep ", dependencies.delay, "m && "));
  }
  for (const std::string& id : ids[Start::kAfterFailure]) {
    absl::StrAppend(&line, wait, id, " || ");
  }
  return line;
}

// Returns the value of the option that is written OPTION=VALUE; "" if it is not among the words.
std::string ValueOf(const std::string& option, const Words& words) {
  for (const std::string& word : words) {
    if (word.starts_with(option + "=")) {
      return word.substr(option.size() + 1);
    }
  }
  return "";
}

// Returns the value of the option in the call; "" if it is not there.
std::string ValueIn(const std::string& call, const std::string& option) {
  const Words words = absl::StrSplit(call, ' ');
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

// Returns the options --tenant and --address of the call: " --tenant vision".
std::string Where(const std::string& call) {
  std::string where;
  for (const char* const option : {"--tenant", "--address"}) {
    const std::string value = ValueIn(call, option);
    absl::StrAppend(&where, value.empty() ? "" : absl::StrCat(" ", option, " ", value));
  }
  return where;
}

// Returns the folder whose files the call would submit; "" if there is none.
std::string FolderIn(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_next = words[i] == "-f" || words[i] == "--filename";
    const std::string value = is_next && i + 1 < words.size() ? words[i + 1] : ValueOf("--filename", {words[i]});
    if (value == "." || value == ".." || (value.ends_with('/') && NeedsNoQuotes(value))) {
      return value;
    }
  }
  return "";
}

// Returns the call, once for each of the files that it would submit, if these are several files or those of a folder.
std::string ForEachFile(const std::string& call, const Words& words) {
  const std::string folder = FolderIn(words);
  const bool is_deep =
      std::any_of(words.begin(), words.end(), [](const std::string& word) { return IsOneOf(word, "-R|--recursive"); });
  Words files;
  Words rest;
  const Words parts = absl::StrSplit(call, ' ');
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != "-f" || i + 1 == parts.size()) {
      rest.push_back(parts[i]);
      continue;
    }
    const std::string file = parts[++i] == "FILE" && !folder.empty() ? folder : parts[i];
    if (files.empty()) {
      rest.insert(rest.end(), {"-f", "\"$f\""});
    }
    const bool is_folder = file == folder || file.ends_with('/');
    files.push_back(!is_folder            ? file
                    : is_deep             ? absl::StrCat("$(find ", file, " -name '*.yaml')")
                    : file.ends_with('/') ? file + "*.yaml"
                                          : file + "/*.yaml");
  }
  return folder.empty() && files.size() < 2
             ? call
             : absl::StrCat("for f in ", absl::StrJoin(files, " "), "; do ", absl::StrJoin(rest, " "), "; done");
}

}  // namespace

std::string NumbersOfArray(const std::string& text) {
  Words numbers;
  const std::string list = text.substr(0, text.find('%'));
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    const Words range_and_step = absl::StrSplit(part, ':');
    const Words range = absl::StrSplit(range_and_step[0], '-');
    const auto is_number = [](const std::string& word) {
      return !word.empty() && std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
    };
    const bool has_step = range_and_step.size() == 2 && range.size() == 2 && is_number(range_and_step[1]);
    if (range.size() > 2 || !std::all_of(range.begin(), range.end(), is_number) ||
        (range_and_step.size() > 1 && !has_step)) {
      return "";
    }
    numbers.push_back(range.size() == 1 ? range[0]
                                        : absl::StrCat("$(seq ", range[0], has_step ? " " + range_and_step[1] : "", " ",
                                                       range[1], ")"));
  }
  return absl::StrJoin(numbers, " ");
}

std::string InShell(const std::string& call, const Words& words) {
  if (!call.starts_with(kSubmitCall)) {
    return call;
  }
  std::string line = ForEachFile(call, words);
  if (const std::string array = ValueOf("--array", words); absl::StrContains(call, "$i") && !array.empty()) {
    const std::string numbers = NumbersOfArray(array);
    line = absl::StrCat("for i in ", numbers.empty() ? "NUMBERS" : numbers, "; do ", line, "; done");
  }
  const std::string dependency = ValueOf("--dependency", words);
  const std::string name = ValueIn(call, "--name");
  return dependency.empty() ? line : WaitFor(dependency, name.empty() ? "NAME" : name, Where(call)) + line;
}

}  // namespace ampd::client
