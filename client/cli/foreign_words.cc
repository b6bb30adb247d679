#include "client/cli/foreign_words.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/command_words.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// Options of other programs whose value is the next word. Those of ampctl are not listed.
constexpr const char* kOptionsWithValue[] = {"-A",
                                             "-J",
                                             "-M",
                                             "-N",
                                             "-R",
                                             "-c",
                                             "-j",
                                             "-l",
                                             "-n",
                                             "-p",
                                             "-s",
                                             "-t",
                                             "-u",
                                             "-w",
                                             "--account",
                                             "--cluster",
                                             "--container",
                                             "--cpus-per-task",
                                             "--field-selector",
                                             "--gpus",
                                             "--gres",
                                             "--jobs",
                                             "--mem",
                                             "--name",
                                             "--namespace",
                                             "--nodelist",
                                             "--nodes",
                                             "--ntasks",
                                             "--partition",
                                             "--priority",
                                             "--qos",
                                             "--repo",
                                             "--selector",
                                             "--state",
                                             "--states",
                                             "--template",
                                             "--time",
                                             "--user"};

// What users call the things of ampctl, and the word for it in the table of foreign words.
const std::map<std::string_view, std::string_view>& Types() {
  static const auto* const kTypes = new std::map<std::string_view, std::string_view>{{"job", "job"},
                                                                                     {"jobs", "job"},
                                                                                     {"pod", "job"},
                                                                                     {"pods", "job"},
                                                                                     {"po", "job"},
                                                                                     {"node", "node"},
                                                                                     {"nodes", "node"},
                                                                                     {"no", "node"},
                                                                                     {"worker", "node"},
                                                                                     {"workers", "node"},
                                                                                     {"gpu", "gpu"},
                                                                                     {"gpus", "gpu"},
                                                                                     {"device", "device"},
                                                                                     {"devices", "device"},
                                                                                     {"checkpoint", "checkpoint"},
                                                                                     {"checkpoints", "checkpoint"},
                                                                                     {"artifact", "artifact"},
                                                                                     {"artifacts", "artifact"},
                                                                                     {"file", "artifact"},
                                                                                     {"files", "artifact"},
                                                                                     {"policy", "policy"},
                                                                                     {"policies", "policy"},
                                                                                     {"context", "context"},
                                                                                     {"contexts", "context"},
                                                                                     {"event", "event"},
                                                                                     {"events", "event"},
                                                                                     {"log", "log"},
                                                                                     {"logs", "log"}};
  return *kTypes;
}

bool IsPlaceholder(const std::string& word) {
  return std::any_of(word.begin(), word.end(), absl::ascii_isupper) &&
         std::none_of(word.begin(), word.end(), absl::ascii_islower) && word.front() != '-';
}

// Returns the words with TYPE/NAME as two words, and with Slurm's KEY=VALUE as options and names.
Words Split(const Words& words) {
  Words split;
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> typed = absl::StrSplit(word, absl::MaxSplits('/', 1));
    const std::pair<std::string, std::string> assigned = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const std::string key = absl::AsciiStrToLower(assigned.first);
    if (!typed.second.empty() && Types().contains(typed.first)) {
      split.insert(split.end(), {typed.first, typed.second});
    } else if (!assigned.second.empty() && (key == "jobid" || key == "nodename")) {
      split.push_back(assigned.second);
    } else if (!assigned.second.empty() && key == "priority") {
      split.insert(split.end(), {"--priority", assigned.second});
    } else if (!assigned.second.empty() && key == "state" && !split.empty() && split.front() == "scontrol") {
      split.insert(split.begin() + std::min<std::ptrdiff_t>(2, std::ssize(split)),
                   "State=" + absl::AsciiStrToUpper(assigned.second));
    } else {
      split.push_back(word);
    }
  }
  return split;
}

// Returns the number of words of a table entry that must be typed as they stand. A placeholder at its end stands for a
// name.
size_t NumFixed(const Words& entry) {
  const bool ends_in_name = IsPlaceholder(entry.back()) && entry.back().find('=') == std::string::npos;
  return entry.size() - (ends_in_name ? 1 : 0);
}

// Whether the typed words begin with the fixed ones of `entry`, of which the group's own are the first.
bool BeginsWith(const Words& typed, const Words& entry, size_t num_in_group) {
  if (entry.size() <= num_in_group || NumFixed(entry) > typed.size()) {
    return false;
  }
  for (size_t i = 0; i < NumFixed(entry); ++i) {
    const auto type = Types().find(typed[i]);
    const bool is_type = i >= num_in_group && type != Types().end() && type->second == entry[i];
    if (typed[i] != entry[i] && !is_type) {
      return false;
    }
  }
  return true;
}

bool TakesNextWord(const std::string& option) {
  return option == "-o" || option == "--output" ||
         std::find(std::begin(kOptionsWithValue), std::end(kOptionsWithValue), option) != std::end(kOptionsWithValue);
}

// Moves the options that stand directly behind the word at `index` to the end, with their values.
void MoveOptionsBehind(size_t index, Words* typed) {
  const auto first = typed->begin() + static_cast<std::ptrdiff_t>(std::min(index + 1, typed->size()));
  auto end = first;
  while (end != typed->end() && end->starts_with('-')) {
    const bool has_value = TakesNextWord(*end) && end + 1 != typed->end();
    end += has_value ? 2 : 1;
  }
  std::rotate(first, end, typed->end());
}

// The user's own words that an answer keeps.
struct OwnWords {
  struct Option {
    const CLI::Option* option;
    std::string name;
    std::string value;  // empty: a flag
  };
  Words names;
  std::vector<Option> options;
};

// Returns the option of `command` that `name` is, or is called in other programs; null if there is none.
const CLI::Option* OptionMeant(const CLI::App& command, const std::string& name) {
  const bool is_long = name.starts_with("--");
  if (const CLI::Option* const own = FindOption(&command, name.substr(is_long ? 2 : 1), is_long); own != nullptr) {
    return own;
  }
  const std::string meant = OptionForForeign(name, OptionNames(command));
  return meant.empty() ? nullptr : FindOption(&command, meant.substr(2), /*is_long=*/true);
}

std::string WrittenName(const CLI::Option& option) {
  return option.get_snames().empty() ? "--" + option.get_lnames().front() : "-" + option.get_snames().front();
}

// Reads the words behind a foreign word as words of ampctl's own `command`.
OwnWords ReadOwnWords(const CLI::App& command, const Words& words) {
  OwnWords own;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (NeedsNoQuotes(word)) {
      own.names.push_back(word);
    }
    if (word.size() < 2 || word.front() != '-') {
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* const option = word == "--json" ? nullptr : OptionMeant(command, name);
    const bool is_rewritten = option == nullptr && !RewrittenOption(PathOf(command), name, "").empty();
    const bool takes_value =
        option != nullptr ? option->get_items_expected_max() > 0 : is_rewritten || TakesNextWord(name);
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (takes_value && equals == std::string::npos && i + 1 < words.size()) {
      value = words[++i];
    }
    if (word == "--json") {
      own.options.push_back({FindOption(&command, "output", /*is_long=*/true), "-o", "json"});
    } else if (is_rewritten) {
      own.options.push_back({nullptr, RewrittenOption(PathOf(command), name, value), ""});
    } else if (option != nullptr && (!takes_value || NeedsNoQuotes(value))) {
      own.options.push_back({option, WrittenName(*option), value});
    }
  }
  if (own.names.size() > 1 && Types().contains(own.names.front())) {
    own.names.erase(own.names.begin());  // "job" in "logs job x"
  }
  return own;
}

bool TakesManyNames(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      return option->get_items_expected_max() > 1;
    }
  }
  return false;
}

// Takes the option out of the user's own; returns its value, or "" if the user did not give it.
std::string TakeOption(const CLI::Option* option, OwnWords* own) {
  const auto given = std::find_if(own->options.begin(), own->options.end(),
                                  [option](const OwnWords::Option& one) { return one.option == option; });
  if (option == nullptr || given == own->options.end()) {
    return "";
  }
  const std::string value = given->value;
  own->options.erase(given);
  return value;
}

std::string TakeName(const std::string& placeholder, OwnWords* own) {
  if (own->names.empty()) {
    return placeholder;
  }
  const std::string name = own->names.front();
  own->names.erase(own->names.begin());
  return name;
}

// Returns the command of a table entry with the user's own names, files and options.
std::string WithOwnWords(const CLI::App& command, const std::string& text, OwnWords own) {
  const Words words = absl::StrSplit(text, ' ');
  const auto num_places = std::count_if(words.begin(), words.end(), IsPlaceholder);
  Words result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word.starts_with('-')) {
      const std::string value = TakeOption(OptionMeant(command, word), &own);
      result.push_back(word);
      if (!value.empty() && has_value) {
        result.push_back(value);
        ++i;
      }
    } else if (!IsPlaceholder(word)) {
      result.push_back(word);
    } else if (word == "ID" && num_places == 1 && TakesManyNames(command) && !own.names.empty()) {
      result.insert(result.end(), own.names.begin(), own.names.end());
      own.names.clear();
    } else {
      result.push_back(TakeName(word, &own));
    }
  }
  for (const OwnWords::Option& option : own.options) {
    result.push_back(option.name);
    if (!option.value.empty()) {
      result.push_back(option.value);
    }
  }
  return absl::StrJoin(result, " ");
}

// Returns the command to which the first words of `text` lead.
const CLI::App* CommandOf(const CLI::App& root, const std::string& text) {
  std::string unknown;
  return FindCommand(&root, absl::StrSplit(text, ' '), &unknown);
}

}  // namespace

std::string CommandLine(const std::string& command, const std::vector<std::string>& words) {
  std::string line = command;
  for (const std::string& word : words) {
    const bool is_option =
        word.size() > 1 && word.front() == '-' && NeedsNoQuotes(word.substr(word.find_first_not_of('-')));
    absl::StrAppend(&line, " ", NeedsNoQuotes(word) || is_option ? word : "...");
  }
  return line;
}

std::string ForeignWordAdvice(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest) {
  Words typed = Split(rest);
  size_t num_in_group = 0;
  if (!group.empty()) {
    const Words path = absl::StrSplit(group, ' ');
    num_in_group = path.size();
    typed.insert(typed.begin(), path.begin(), path.end());
  }
  MoveOptionsBehind(num_in_group, &typed);
  std::string advice;
  size_t num_matched = 0;
  for (const ForeignWord& word : ForeignWords()) {
    const Words entry = absl::StrSplit(word.words, ' ');
    if (entry.size() <= num_matched || !BeginsWith(typed, entry, num_in_group)) {
      continue;
    }
    const CLI::App& command = *CommandOf(root, word.command);
    const size_t num_fixed = NumFixed(entry);
    const OwnWords own =
        ReadOwnWords(command, Words(typed.begin() + static_cast<std::ptrdiff_t>(num_fixed), typed.end()));
    if (num_fixed == entry.size() || !own.names.empty()) {
      num_matched = entry.size();
      advice = absl::StrCat("to ", word.purpose, ": ampctl ", WithOwnWords(command, word.command, own));
    }
  }
  return advice;
}

}  // namespace ampd::client
