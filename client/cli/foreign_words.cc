#include "client/cli/foreign_words.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/command_words.h"
#include "client/cli/foreign_verbs.h"
#include "client/cli/own_words.h"
#include "client/cli/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr char kDidYouMean[] = "did you mean: ";

bool LooksLikeFile(const std::string& name) { return name.find_first_of("./") != std::string::npos; }

// Whether the word is kubectl's TYPE/NAME, such as job/x, and no path, such as data/x.npz.
bool IsTypeAndName(const std::string& word) {
  const size_t slash = word.find('/');
  const std::string thing = slash == std::string::npos ? "" : ThingNamed(word.substr(0, slash));
  const bool may_be_folder = thing == "data" || thing == "model" || thing == "artifact" || thing == "checkpoint";
  return !thing.empty() && slash + 1 < word.size() && !(may_be_folder && LooksLikeFile(word.substr(slash + 1)));
}

// Returns Slurm's KEY=VALUE as it is in the table of foreign words: as options, names and things.
void AddAssigned(const std::string& word, Words* split) {
  const std::pair<std::string, std::string> assigned = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const std::string key = absl::AsciiStrToLower(assigned.first);
  const bool is_of_scontrol = !split->empty() && split->front() == "scontrol";
  if (key == "jobid" || key == "nodename") {
    split->push_back(assigned.second);
  } else if (key == "priority") {
    split->insert(split->end(), {"--priority", assigned.second});
  } else if (key == "state" && is_of_scontrol) {
    split->insert(split->begin() + std::min<std::ptrdiff_t>(2, std::ssize(*split)),
                  "State=" + absl::AsciiStrToUpper(assigned.second));
  } else if (is_of_scontrol && IsThing(key)) {
    split->insert(split->end(), {key, assigned.second});
  } else {
    split->push_back(word);
  }
}

// Returns the words with TYPE/NAME as two words, Slurm's KEY=VALUE as options and names, its -j ID as a name, and the
// JOB of a JOB:PATH that `cp` copies from.
Words Split(const Words& words) {
  constexpr std::string_view kSlurmLists[] = {"squeue", "sacct", "sstat"};
  const bool is_slurm_list =
      !words.empty() && std::find(std::begin(kSlurmLists), std::end(kSlurmLists), words[0]) != std::end(kSlurmLists);
  Words split;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (IsTypeAndName(word)) {
      split.insert(split.end(), {word.substr(0, word.find('/')), word.substr(word.find('/') + 1)});
    } else if (is_slurm_list && (word == "-j" || word == "--job" || word == "--jobs") && i + 1 < words.size()) {
      split.push_back(words[++i]);
    } else if (is_slurm_list && (word.starts_with("--job=") || word.starts_with("--jobs="))) {
      split.push_back(word.substr(word.find('=') + 1));
    } else if (is_slurm_list && (word == "-l" || word == "--long")) {
      split.insert(split.end(), {"-o", "wide"});
    } else if (!split.empty() && split.front() == "cp" && !word.starts_with('-')) {
      split.push_back(word.substr(0, word.find(":/")));
    } else if (!word.starts_with('-') && absl::StrContains(word, "=") && !word.ends_with('=')) {
      AddAssigned(word, &split);
    } else {
      split.push_back(word);
    }
  }
  return split;
}

// What an entry of the table of foreign words requires of the typed words.
struct Entry {
  Words fixed;              // words that must be typed as they stand
  Words options;            // options that must be typed anywhere behind them
  bool needs_name = false;  // whether a name must be typed, too
  bool needs_file = false;  // whether that name must look like that of a file
};

Entry EntryOf(const ForeignWord& word) {
  Entry entry;
  for (const absl::string_view part : absl::StrSplit(word.words, ' ')) {
    const std::string text(part);
    if (text.starts_with('-')) {
      entry.options.push_back(text);
    } else if (IsPlaceholder(text) && !absl::StrContains(text, '=')) {
      entry.needs_name = true;
      entry.needs_file = text == "FILE";
    } else {
      entry.fixed.push_back(text);
    }
  }
  return entry;
}

bool HasOption(const Words& typed, const std::string& option) {
  return std::any_of(typed.begin(), typed.end(),
                     [&option](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

// Whether the typed words begin with the fixed ones of `entry` and have its options. The first `num_in_group` of them
// are the path of a group.
bool Fits(const Words& typed, const Entry& entry, size_t num_in_group) {
  if (entry.fixed.size() <= num_in_group || entry.fixed.size() > typed.size()) {
    return false;
  }
  for (size_t i = 0; i < entry.fixed.size(); ++i) {
    const bool is_thing = i >= num_in_group && ThingNamed(typed[i]) == entry.fixed[i];
    if (typed[i] != entry.fixed[i] && !is_thing) {
      return false;
    }
  }
  return std::all_of(entry.options.begin(), entry.options.end(),
                     [&typed](const std::string& option) { return HasOption(typed, option); });
}

// Moves the options that stand directly behind the first word to the end, with their values.
void MoveOptionsToEnd(Words* typed) {
  const auto first = typed->begin() + 1;
  auto end = first;
  while (end != typed->end() && end->starts_with('-')) {
    const bool is_last = end + 1 == typed->end();
    const bool has_value = !is_last && (TakesNextWord(*end) || (*end == "-f" && LooksLikeFile(end[1])));
    end += has_value ? 2 : 1;
  }
  std::rotate(first, end, typed->end());
}

Words Behind(const Words& typed, size_t num) {
  return Words(typed.begin() + static_cast<std::ptrdiff_t>(std::min(num, typed.size())), typed.end());
}

// Advice, and the number of typed words that it is for; 0: there is none.
struct Advice {
  std::string text;
  size_t num_words = 0;
};

// Looks the typed words up in the table of foreign words, and returns what to type instead. If several entries fit
// equally well, the user may mean any of them, and the advice has all.
Advice FromTable(const CLI::App& root, const Words& typed, size_t num_in_group) {
  Advice advice;
  std::string_view words;
  size_t num_matched = 0;
  for (const ForeignWord& word : ForeignWords()) {
    const Entry entry = EntryOf(word);
    const size_t size = entry.fixed.size() + entry.options.size() + (entry.needs_name ? 1 : 0);
    if ((size <= num_matched && words != word.words) || !Fits(typed, entry, num_in_group)) {
      continue;
    }
    const Words rest = Behind(typed, entry.fixed.size());
    const CLI::App& command = *CommandOf(root, word.command);
    const Words names = OwnNames(command, rest);
    if ((entry.needs_name && names.empty()) || (entry.needs_file && !LooksLikeFile(names.front()))) {
      continue;
    }
    const std::string text = *word.command == '\0'
                                 ? word.purpose
                                 : absl::StrCat("to ", word.purpose, ": ", WithOwnWords(command, word.command, rest));
    advice = {words == word.words ? absl::StrCat(advice.text, "; ", text) : text, entry.fixed.size()};
    words = word.words;
    num_matched = size;
  }
  return advice;
}

std::string Call(const CLI::App& command, const Words& rest) { return WithOwnWords(command, CallOf(command), rest); }

// Returns the group with this name; null if `root` has none.
const CLI::App* GroupNamed(const CLI::App& root, const std::string& name) {
  std::string unknown;
  const CLI::App* const group = name.empty() ? nullptr : FindCommand(&root, {name}, &unknown);
  return group == nullptr || !unknown.empty() || SubcommandsOf(*group).empty() ? nullptr : group;
}

// Returns what `verb` means in the group: one of its commands, what the table says, or the command that does what the
// verb does in other programs.
std::string InGroup(const CLI::App& root, const CLI::App& group, const std::string& verb, const Words& rest) {
  std::string unknown;
  const CLI::App* const own = FindCommand(&group, {verb}, &unknown);
  if (unknown.empty()) {
    return kDidYouMean + Call(*own, rest);
  }
  Words typed = {PathOf(group), verb};
  typed.insert(typed.end(), rest.begin(), rest.end());
  if (const Advice advice = FromTable(root, typed, 1); advice.num_words > 0) {
    return advice.text;
  }
  const CLI::App* const meant = CommandForForeignVerb(group, verb);
  return meant == nullptr ? "" : kDidYouMean + Call(*meant, rest);
}

// Returns what the name of a thing alone means: its list or, if the group has none, its only command.
std::string ListOf(const CLI::App& root, const CLI::App& group, const Words& rest) {
  std::string advice = InGroup(root, group, "list", rest);
  const std::vector<const CLI::App*> commands = SubcommandsOf(group);
  return advice.empty() && commands.size() == 1 ? kDidYouMean + Call(*commands.front(), rest) : advice;
}

// Returns the advice on words that begin with the name of a thing, such as `ckpt list` and `nodes`.
std::string OfThing(const CLI::App& root, const Words& typed) {
  const CLI::App* const group = GroupNamed(root, GroupOfThing(typed[0]));
  if (group == nullptr) {
    return "";
  }
  const bool has_verb = typed.size() > 1 && !typed[1].starts_with('-');
  return has_verb ? InGroup(root, *group, typed[1], Behind(typed, 2)) : ListOf(root, *group, Behind(typed, 1));
}

// Returns the advice on a verb with the thing that it is for, such as `list workers` and `show logs`.
std::string OfVerbAndThing(const CLI::App& root, const Words& typed) {
  if (const CLI::App* const group = GroupNamed(root, GroupOfThing(typed[1])); group != nullptr) {
    return InGroup(root, *group, typed[0], Behind(typed, 2));
  }
  const CLI::App* const jobs = GroupNamed(root, "job");
  if (jobs == nullptr || !IsReadingVerb(typed[0])) {
    return "";
  }
  for (const std::string& name : {typed[1], typed[1] + "s"}) {
    std::string unknown;
    if (const CLI::App* const command = FindCommand(jobs, {name}, &unknown); unknown.empty()) {
      return kDidYouMean + Call(*command, Behind(typed, 2));
    }
  }
  return "";
}

// Returns the advice on a verb that ampctl has in another group or, if none has it, that does the same as one of
// ampctl's. Without a group, such a verb most often is meant for jobs.
std::string OfVerb(const CLI::App& root, const std::string& verb, const Words& rest) {
  std::vector<const CLI::App*> commands = CommandsNamed(root, verb);
  for (const CLI::App* group : SubcommandsOf(root)) {
    const bool is_job_meant = commands.size() == 1 && PathOf(*commands.front()).starts_with("job ");
    const bool has_own = !CommandsNamed(root, verb).empty();
    const CLI::App* const meant = is_job_meant || has_own ? nullptr : CommandForForeignVerb(*group, verb);
    if (meant != nullptr) {
      commands.push_back(meant);
    }
  }
  std::vector<std::string> calls;
  for (const CLI::App* command : commands) {
    calls.push_back(Call(*command, rest));
  }
  return calls.empty() ? "" : kDidYouMean + absl::StrJoin(calls, ", or ");
}

// Whether the word is another program, whose own words follow: `kubectl` in `ampctl kubectl get pods`.
bool IsProgram(const std::string& word) {
  constexpr std::string_view kPrograms[] = {"kubectl", "k8s", "oc", "docker", "podman", "gh", "slurm", "ampctl"};
  return std::find(std::begin(kPrograms), std::end(kPrograms), word) != std::end(kPrograms);
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
  if (rest.empty()) {
    return "";
  }
  if (group.empty() && rest.size() > 1 && IsProgram(rest[0])) {
    return ForeignWordAdvice(root, group, Behind(rest, 1));
  }
  Words typed = Split(rest);
  MoveOptionsToEnd(&typed);
  const Words after = Behind(typed, 1);
  if (!group.empty()) {
    const CLI::App* const known = GroupNamed(root, group);
    const std::string advice = known == nullptr ? "" : InGroup(root, *known, typed[0], after);
    return advice.empty() && known != nullptr ? OfVerb(root, typed[0], after) : advice;
  }
  const Advice from_table = FromTable(root, typed, 0);
  const bool has_two_words = !after.empty() && !after[0].starts_with('-');
  std::string advice;
  if (has_two_words && from_table.num_words < 2) {
    advice = OfVerbAndThing(root, typed);
    advice = advice.empty() ? OfThing(root, typed) : advice;
  }
  advice = advice.empty() ? from_table.text : advice;
  advice = advice.empty() ? OfThing(root, typed) : advice;
  return advice.empty() ? OfVerb(root, typed[0], after) : advice;
}

}  // namespace ampd::client
