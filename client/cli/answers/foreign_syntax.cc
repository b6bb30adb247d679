#include "client/cli/answers/foreign_syntax.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/own_words.h"
#include "client/cli/answers/tables/program_options.h"
#include "client/cli/answers/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// Commands of other programs that by default list only some of the jobs. `program`: the word in front of the command;
// empty if the command is itself a program, such as squeue. `unless`: the options that make the command list further
// jobs; empty if it has none. `own`: the option of `ampctl job list` for the jobs that the command lists by default.
constexpr struct {
  const char* program;
  const char* command;
  const char* unless;
  const char* own;
} kPartialLists[] = {
    {"", "squeue", "-t|--state|--states|-tall", "--active"},
    {"", "bjobs", "-a|-d|-r|-p|-s", "--active"},
    {"", "qstat|qselect", "-x|-H|-s|-Q|-q", "--active"},
    {"docker|podman|nerdctl", "ps", "-a|--all|-aq|-qa|-f|--filter|-n|--last|-l|--latest", "--active"},
    {"", "sprio", "", "--queued"},
};

// Short names for kinds of things in det, the command line of Determined.
constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {{"e", "experiment"},
                                                                         {"exp", "experiment"},
                                                                         {"t", "trial"},
                                                                         {"s", "slot"},
                                                                         {"a", "agent"},
                                                                         {"c", "checkpoint"},
                                                                         {"m", "model"},
                                                                         {"u", "user"},
                                                                         {"j", "job"},
                                                                         {"w", "workspace"},
                                                                         {"p", "project"},
                                                                         {"rp", "queue"},
                                                                         {"resource-pool", "queue"}};

// Whether the command takes several ids with commas between them, as in `scontrol hold 5,6`.
bool HasIdsWithCommas(const std::string& command) {
  return IsOneOf(command, "scontrol|scancel|squeue|sacct|sstat|sprio|sattach|seff|bjobs|qstat");
}

// Whether the command has kubectl's option -o, whose value may stand directly behind it.
bool HasFormatsOfKubectl(const std::string& command) { return IsOneOf(command, "get|describe|top|events"); }

// Returns the id of a job of Slurm without the number of a step or task: "5" for "5.0" and "5_3". The names and ids of
// ampd's jobs contain neither a dot nor a _.
std::string WithoutStep(const std::string& id) {
  const size_t end = id.find_first_of("._");
  const bool has_number = end != std::string::npos && end > 0 && end + 1 < id.size() &&
                          (absl::ascii_isdigit(id[end + 1]) || id[end + 1] == '[');
  return has_number || id.ends_with(".batch") ? id.substr(0, end) : id;
}

// Whether the word is kubectl's TYPE/NAME, such as job/x, and not a path, such as data/x.npz.
bool IsTypeAndName(const std::string& word) {
  const size_t slash = word.find('/');
  const std::string thing = slash == std::string::npos ? "" : ThingNamed(word.substr(0, slash));
  const bool may_be_folder = thing != "job" && thing != "worker";
  return !thing.empty() && slash + 1 < word.size() && !(may_be_folder && LooksLikeFile(word.substr(slash + 1)));
}

// Keys of `scontrol update`, each with the option of sbatch that sets the same.
constexpr std::pair<std::string_view, std::string_view> kOptionsOfKeys[] = {
    {"timelimit", "--time"},    {"jobname", "--job-name"},      {"nodelist|reqnodelist", "--nodelist"},
    {"minmemorynode", "--mem"}, {"gres|trespernode", "--gres"}, {"cpuspertask|numcpus|mincpusnode", "--cpus-per-task"}};

// Rewrites Slurm's KEY=VALUE as the tables of foreign words spell it, and appends the result to `words`: an option
// (--priority 10), a thing and its name (job 5), or a name alone. If the tables have no spelling for it, it is dropped
// in a command of scontrol or sacctmgr, and appended unchanged in a command of another program.
void AddAssigned(const std::string& word, Words* words) {
  const std::pair<std::string, std::string> assigned = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const std::string key = absl::AsciiStrToLower(assigned.first);
  const std::string& command = words->empty() ? word : words->front();
  const auto option = std::find_if(std::begin(kOptionsOfKeys), std::end(kOptionsOfKeys),
                                   [&](const auto& row) { return IsOneOf(key, row.first); });
  if (key == "priority") {
    words->insert(words->end(), {"--priority", assigned.second});
  } else if (command == "scontrol" && key == "nice") {
    words->push_back("--nice=" + assigned.second);  // The value is no priority: a higher one lets others go first.
  } else if (command == "scontrol" && option != std::end(kOptionsOfKeys)) {
    words->insert(words->end(), {std::string(option->second), assigned.second});
  } else if (command == "scontrol" && key == "state") {
    words->push_back("--state=" + absl::AsciiStrToUpper(assigned.second));
  } else if (command == "scontrol" && IsThing(key)) {
    if (std::any_of(words->begin(), words->end(), IsThing)) {
      return;  // the partition in `update JobId=5 Partition=gpu`
    }
    const Words names = absl::StrSplit(assigned.second, ',', absl::SkipEmpty());
    const auto begin_of_options =
        std::find_if(words->begin(), words->end(), [](const std::string& before) { return before.starts_with("--"); });
    const auto thing = words->insert(begin_of_options, key);
    words->insert(thing + 1, names.begin(), names.end());
  } else if (command == "scontrol" || command == "sacctmgr") {
    if (key == "username" || key == "name" || key == "names" || (key == "user" && words->size() > 2)) {
      words->push_back(assigned.second);
    }
  } else {
    words->push_back(word);
  }
}

// If the table has the option `words[at]` of another program, appends the words that replace it to `result`. Returns
// how many of `words` the option consists of: 2 if its value is the next word, otherwise 1. Returns 0 if the table does
// not have the option. `words[num_programs]` is the command.
size_t AddOption(const Words& words, size_t at, size_t num_programs, Words* result) {
  const std::string& command = words[num_programs];
  const std::string with_next =
      num_programs + 1 < words.size() ? absl::StrCat(command, " ", words[num_programs + 1]) : command;
  const size_t equals = words[at].find('=');
  const std::string name = words[at].substr(0, equals);
  for (const auto& [of_command, foreign, own] : ProgramOptions()) {
    const std::string_view text = foreign;
    const bool has_value = text.ends_with(" %");
    const bool is_command = IsOneOf(command, of_command) || IsOneOf(with_next, of_command);
    if (!is_command || !IsOneOf(name, text.substr(0, text.find(' ')))) {
      continue;
    }
    const bool is_next = has_value && equals == std::string::npos && at + 1 < words.size();
    const std::string typed = is_next ? words[at + 1] : equals == std::string::npos ? "" : words[at].substr(equals + 1);
    const std::string value = IsTypeAndName(typed) ? typed.substr(typed.find('/') + 1) : typed;
    if (own == kInput && !absl::StrContains(value, "=")) {
      continue;  // In `workflow run -f FILE`, the value is a file.
    }
    if (command == "logs" && name == "-n" && std::all_of(value.begin(), value.end(), absl::ascii_isdigit)) {
      continue;  // In `docker logs -n 5`, the value is a number of lines; kubectl's -n names a namespace.
    }
    const bool is_kind = IsOneOf(own, "FORMAT|ORDER|SELECTOR|CONDITION|INPUT|ADDRESS|SERVER|WORKFLOW");
    const std::string meant = is_kind ? ForeignValue(own, value) : own;
    for (const absl::string_view part : absl::StrSplit(meant, ' ', absl::SkipEmpty())) {
      const bool is_list = std::string_view(own) == "%" && HasIdsWithCommas(command);
      const Words values = absl::StrSplit(value, absl::MaxSplits(',', is_list ? value.size() : 0));
      for (const std::string& one : values) {
        result->push_back(absl::StrReplaceAll(part, {{"%", is_list ? WithoutStep(one) : one}}));
      }
    }
    return is_next ? 2 : 1;
  }
  return 0;
}

// Returns {"cp", JOB} for `cp JOB:PATH FOLDER`, {"upload", FILE} for `cp FILE JOB:PATH`, and other words as they are.
Words OfCopy(const Words& words) {
  Words result;
  for (const std::string& word : words) {
    if (!word.starts_with('-')) {
      result.push_back(word);
    }
  }
  if (result.size() < 2) {
    return words;
  }
  if (const size_t colon = result[1].find(':'); colon != std::string::npos) {
    const std::string job = result[1].substr(0, colon);
    return {"cp", job.substr(job.find('/') == std::string::npos ? 0 : job.find('/') + 1)};
  }
  return result.size() > 2 && absl::StrContains(result[2], ":") ? Words{"upload", result[1]} : words;
}

// Returns the option that lists the same jobs as the user's command of another program does, which shows only some of
// the jobs. Empty for a command that shows all jobs. `words` begin with the program if there is one.
std::string OptionOfPartialList(const Words& words) {
  const size_t num_programs = IsProgram(words[0]) && words.size() > 1 ? 1 : 0;
  for (const auto& [program, command, unless, own] : kPartialLists) {
    const bool is_command =
        IsOneOf(num_programs == 1 ? words[0] : "", program) && IsOneOf(words[num_programs], command);
    const bool has_choice = std::any_of(words.begin(), words.end(), [unless = unless](const std::string& word) {
      return word.starts_with('-') && IsOneOf(word.substr(0, word.find('=')), unless);
    });
    if (is_command && !has_choice) {
      return own;
    }
  }
  return "";
}

// Moves options and their values to the end of `words`: those from `first` to the first word that is no option.
void MoveOptionsToEnd(const CLI::App& root, Words::iterator first, Words* words) {
  auto end = first;
  while (end != words->end() && end->starts_with('-') && *end != "--") {
    const bool is_last = end + 1 == words->end();
    const bool is_file = *end == "-f" && !is_last && (LooksLikeFile(end[1]) || end[1] == "." || end[1] == "..");
    const bool is_flag = !is_last && end[1].starts_with("--");
    const bool takes_value = (TakesNextWord(*end) && !is_flag) || is_file ||
                             (!absl::StrContains(*end, "=") && TakesValueInAmpctl(root, *end));
    end += !is_last && takes_value ? 2 : 1;
  }
  std::rotate(first, end, words->end());
}

}  // namespace

bool IsOneOf(const std::string& word, std::string_view words) {
  const std::vector<absl::string_view> list = absl::StrSplit(absl::string_view(words.data(), words.size()), '|');
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool LooksLikeFile(const std::string& word) {
  return word != "." && word != ".." && word.find_first_of("./") != std::string::npos;
}

bool LooksLikeJobFile(const std::string& word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

bool LooksLikeScript(const std::string& word) {
  const size_t dot = word.rfind('.');
  const bool is_program = word.starts_with("./") && dot == 0 && !word.ends_with('/');  // ./train
  return is_program || IsOneOf(word, "python|python3|bash|sh|torchrun|accelerate|deepspeed|mpirun") ||
         (dot != std::string::npos && IsOneOf(word.substr(dot), ".sh|.py|.bash|.sbatch|.slurm|.pbs|.lsf|.job"));
}

bool BeginsScript(const std::string& command, const std::string& word) {
  return IsOneOf(command, "sbatch|srun|salloc") && LooksLikeScript(word);
}

bool IsProgram(const std::string& word) {
  return IsOneOf(word,
                 "kubectl|k8s|k|oc|docker|podman|nerdctl|gh|slurm|lsf|pbs|helm|ray|det|wandb|mlflow|sky|ampctl|ampd");
}

std::vector<std::string> InOwnSyntax(const CLI::App& root, const std::vector<std::string>& words) {
  Words typed = words;
  const size_t num_programs = IsProgram(typed[0]) && typed.size() > 1 ? 1 : 0;
  MoveOptionsToEnd(root, typed.begin() + static_cast<std::ptrdiff_t>(num_programs), &typed);
  const std::string command = typed[num_programs];
  for (const auto& [short_name, name] : kShortNames) {
    if (typed[0] == "det" && command == short_name) {
      typed[1] = name;
    }
  }
  typed = command == "cp" && num_programs == 0 ? OfCopy(typed) : typed;
  Words result;
  std::string thing;  // the type of the first TYPE/NAME
  bool has_tag = false;
  for (size_t i = 0; i < typed.size(); ++i) {
    const std::string& word = typed[i];
    if (word == "--") {
      result.insert(result.end(), typed.begin() + static_cast<std::ptrdiff_t>(i), typed.end());
      break;
    }
    if (command == "taint" && word.ends_with('-') && word.size() > 1) {
      result.push_back("--remove");  // `taint nodes w1 gpu=true:NoSchedule-`
      continue;
    }
    if (command == "scontrol" && word == "ASAP") {
      continue;  // `scontrol reboot ASAP w1`
    }
    const bool is_second = result.size() == num_programs + 2 && !word.starts_with('-');
    if (command == "release" && is_second && !has_tag &&
        IsOneOf(result.back(), "create|upload|download|view|delete|edit")) {
      has_tag = true;
      continue;  // the tag in `release upload TAG FILE`
    }
    if (command == "brestart" && i + 2 == typed.size() && i > num_programs && !word.starts_with('-')) {
      continue;  // the folder in `brestart FOLDER 5`
    }
    if (const size_t num_read = word.starts_with('-') ? AddOption(typed, i, num_programs, &result) : 0; num_read > 0) {
      i += num_read - 1;
    } else if (HasFormatsOfKubectl(command) && word.starts_with("-o") && word.size() > 2 && word[2] != '=') {
      result.insert(result.end(), {"-o", word.substr(2)});  // -oyaml
    } else if (IsTypeAndName(word)) {
      const std::string type = word.substr(0, word.find('/'));
      thing = thing.empty() ? ThingNamed(type) : thing;
      const bool has_type = std::any_of(result.begin(), result.end(),
                                        [&thing](const std::string& before) { return ThingNamed(before) == thing; });
      if (!has_type) {
        result.push_back(type);  // `delete pod/a job/b` is `delete pod a b`.
      }
      if (ThingNamed(type) == thing) {
        result.push_back(word.substr(word.find('/') + 1));
      }
    } else if (absl::StrContains(word, ",") && IsThing(word.substr(0, word.find(',')))) {
      result.push_back(word.substr(0, word.find(',')));  // only the first of kubectl's pods,nodes
    } else if (!word.starts_with('-') && absl::StrContains(word, "=") && !word.ends_with('=')) {
      AddAssigned(word, &result);
    } else if (HasIdsWithCommas(command) && !word.starts_with('-')) {
      for (const absl::string_view id : absl::StrSplit(word, ',', absl::SkipEmpty())) {
        result.push_back(WithoutStep(std::string(id)));
      }
    } else {
      result.push_back(word);
    }
  }
  MoveOptionsToEnd(root, result.begin() + 1 + static_cast<std::ptrdiff_t>(num_programs), &result);
  if (const std::string option = OptionOfPartialList(words); !option.empty()) {
    result.push_back(option);
  }
  return result;
}

}  // namespace ampd::client
