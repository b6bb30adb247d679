#include "client/cli/foreign_words.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "client/cli/command_words.h"
#include "client/cli/foreign_syntax.h"
#include "client/cli/foreign_verbs.h"
#include "client/cli/left_out.h"
#include "client/cli/own_words.h"
#include "client/cli/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// What an entry of the table of foreign words requires of the typed words.
struct Entry {
  Words fixed;              // words that must be typed as they stand
  Words options;            // options that must be typed anywhere behind them
  bool needs_name = false;  // whether a name must be typed, too
  bool needs_file = false;  // whether that name must look like that of a file
  bool needs_script = false;
  bool needs_step = false;  // whether the name must have a step, as x@200
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
      entry.needs_script = text == "SCRIPT";
      entry.needs_step = absl::StrContains(text, "@");
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

Words Behind(const Words& typed, size_t num) {
  return Words(typed.begin() + static_cast<std::ptrdiff_t>(std::min(num, typed.size())), typed.end());
}

// Whether the user has typed the name that the entry needs. A script may have words of its own in front: `python x.py`.
bool HasNameOf(const Entry& entry, const Words& names, const Words& rest) {
  if (entry.needs_script) {
    return std::any_of(rest.begin(), rest.end(), LooksLikeScript);
  }
  return !(entry.needs_name && names.empty()) && !(entry.needs_file && !LooksLikeFile(names.front())) &&
         !(entry.needs_step && !absl::StrContains(names.front(), "@"));
}

// Advice, and the number of typed words that it is for; 0: there is none.
struct Advice {
  std::string text;
  size_t num_words = 0;
};

// Whether the command reads one job, so that several jobs need a call each.
bool ReadsOneJob(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path == "job logs" || path == "job show" || path == "job events" || path == "job points";
}

// Adds the user's option --tenant to the commands `ampctl job list -q` and `xargs -r ampctl job VERB` of an answer.
std::string InTenantOf(const CLI::App& root, const Words& rest, std::string answer) {
  const std::string list = WithOwnWords(*CommandOf(root, "job list"), "job list -q", rest);
  const size_t begin = list.find(" --tenant ");
  if (begin == std::string::npos) {
    return answer;
  }
  const std::string tenant = list.substr(begin, list.find(' ', begin + sizeof(" --tenant")) - begin);
  answer = absl::StrReplaceAll(answer, {{"ampctl job list -q", "ampctl job list -q" + tenant}});
  for (const std::string verb : {"cancel", "pause", "resume", "delete", "wait"}) {
    const std::string call = "xargs -r ampctl job " + verb;
    answer = absl::StrReplaceAll(answer, {{call, call + tenant}});
  }
  return answer;
}

// Returns what the user's options demand that no single command does: "--all", or `-u ann` in place of ids. Empty:
// there is no such option.
std::string OfOptions(const CLI::App& root, const CLI::App& command, const std::string& text, const Words& rest) {
  for (const std::string& word : rest) {
    const bool is_all = word == "--all" || word.starts_with("--all=");
    const std::string answer = is_all ? AnswerToOption(PathOf(command), "--all") : "";
    if (!answer.empty()) {
      return InTenantOf(root, rest, answer);
    }
  }
  const bool takes_many = PathOf(command).starts_with("job ") && TakesManyNames(command);
  if ((!takes_many && !ReadsOneJob(command)) || !OwnNames(command, rest).empty()) {
    return "";
  }
  const std::string list = WithOwnWords(*CommandOf(root, "job list"), "job list -q", rest);
  if (!absl::StrContains(list, " --filter ")) {
    return "";
  }
  Words parts = absl::StrSplit(text, ' ');
  std::erase_if(parts, [](const std::string& part) { return part == "ID" || part == "ID..."; });
  return absl::StrCat(takes_many ? absl::StrCat("to ", command.get_name(), " all such jobs: ") : "for each such job: ",
                      list, takes_many ? " | xargs -r ampctl " : " | xargs -r -n 1 ampctl ", absl::StrJoin(parts, " "),
                      command.get_name() == "delete" ? " -y" : "");
}

// Returns the advice to type `text`, which is a call of `command`, with the user's own words in `rest`. `intro` says
// what it is for.
std::string Advise(const CLI::App& root, const std::string& intro, const CLI::App& command, const std::string& text,
                   const Words& rest) {
  const std::string of_options = OfOptions(root, command, text, rest);
  return of_options.empty() ? intro + WithOwnWords(command, text, rest) : of_options;
}

// Looks the typed words up in the table of foreign words, and returns what to type instead. If several entries fit
// equally well, the user may mean any of them, and the advice has all.
Advice FromTable(const CLI::App& root, const Words& typed, size_t num_in_group,
                 std::span<const ForeignWord> table = ForeignWords()) {
  Advice advice;
  std::string_view words;
  std::pair<size_t, size_t> matched;  // the numbers of parts and of fixed words
  for (const ForeignWord& word : table) {
    const Entry entry = EntryOf(word);
    const size_t size = entry.fixed.size() + entry.options.size() + (entry.needs_name ? 1 : 0);
    const std::pair<size_t, size_t> match = {size, entry.fixed.size()};
    if ((match <= matched && words != word.words) || !Fits(typed, entry, num_in_group)) {
      continue;
    }
    const Words rest = Behind(typed, entry.fixed.size());
    const CLI::App& command = *CommandOf(root, word.command);
    const Words names = OwnNames(command, rest);
    if (!HasNameOf(entry, names, rest)) {
      continue;
    }
    const std::string text = *word.command == '\0'
                                 ? word.purpose
                                 : Advise(root, absl::StrCat("to ", word.purpose, ": "), command, word.command, rest);
    advice = {words == word.words ? absl::StrCat(advice.text, "; ", text) : text, entry.fixed.size()};
    words = word.words;
    matched = match;
  }
  return advice;
}

std::string DidYouMean(const CLI::App& root, const CLI::App& command, const Words& rest) {
  return Advise(root, "did you mean: ", command, CallOf(command), rest);
}

// Returns the group with this name; null if `root` has none.
const CLI::App* GroupNamed(const CLI::App& root, const std::string& name) {
  std::string unknown;
  const CLI::App* const group = name.empty() ? nullptr : FindCommand(&root, absl::StrSplit(name, ' '), &unknown);
  return group == nullptr || !unknown.empty() || SubcommandsOf(*group).empty() ? nullptr : group;
}

// Returns what `verb` means in the group: one of its commands, what the table says, or the command that does what the
// verb does in other programs.
std::string InGroup(const CLI::App& root, const CLI::App& group, const std::string& verb, const Words& rest) {
  std::string unknown;
  const CLI::App* const own = FindCommand(&group, {verb}, &unknown);
  if (unknown.empty()) {
    return DidYouMean(root, *own, rest);
  }
  Words typed = absl::StrSplit(PathOf(group), ' ');
  const size_t num_in_group = typed.size();
  typed.push_back(verb);
  typed.insert(typed.end(), rest.begin(), rest.end());
  if (const Advice advice = FromTable(root, typed, num_in_group); advice.num_words > 0) {
    return advice.text;
  }
  const CLI::App* const meant = CommandForForeignVerb(group, verb);
  return meant == nullptr ? "" : DidYouMean(root, *meant, rest);
}

// Returns what the name of a thing alone means: its list or, if the group has none, its only command.
std::string ListOf(const CLI::App& root, const CLI::App& group, const Words& rest) {
  std::string advice = InGroup(root, group, "list", rest);
  const std::vector<const CLI::App*> commands = SubcommandsOf(group);
  return advice.empty() && commands.size() == 1 ? DidYouMean(root, *commands.front(), rest) : advice;
}

// Returns the advice on words that begin with the name of a thing, such as `ckpt list` and `nodes`.
std::string OfThing(const CLI::App& root, const Words& typed) {
  const CLI::App* const group = GroupNamed(root, GroupOfThing(typed[0]));
  if (group == nullptr) {
    return "";
  }
  const bool has_verb = typed.size() > 1 && !typed[1].starts_with('-');
  if (!has_verb) {
    return ListOf(root, *group, Behind(typed, 1));
  }
  return InGroup(root, *group, typed[1], Behind(typed, 2));
}

// Returns the advice on a thing with a name, such as `checkpoints x`, or with a misspelled verb.
std::string OfThingWithName(const CLI::App& root, const Words& typed) {
  const CLI::App* const group = GroupNamed(root, GroupOfThing(typed[0]));
  if (group == nullptr || typed.size() < 2 || typed[1].starts_with('-')) {
    return "";
  }
  const std::string nearest = Nearest(typed[1], SubcommandNames(*group));
  return nearest.empty() ? AdviceOnName(root, PathOf(*group), Behind(typed, 1))
                         : InGroup(root, *group, nearest, Behind(typed, 2));
}

// Returns the advice if the typed words are a verb and its object, such as `list workers` or `show logs`.
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
      return DidYouMean(root, *command, Behind(typed, 2));
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
  if (commands.size() == 1) {
    return DidYouMean(root, *commands.front(), rest);
  }
  std::vector<std::string> calls;
  for (const CLI::App* command : commands) {
    calls.push_back(WithOwnWords(*command, CallOf(*command), rest));
  }
  return calls.empty() ? "" : "did you mean: " + absl::StrJoin(calls, ", or ");
}

// Returns the advice on a verb and a thing that has no commands of its own, such as `get secrets`.
std::string OfThingWithoutGroup(const CLI::App& root, const Words& typed) {
  const std::string thing = ThingNamed(typed[1]);
  if (thing.empty() || !IsVerb(typed[0]) || GroupNamed(root, GroupOfThing(typed[1])) != nullptr) {
    return "";
  }
  Words words = {thing};
  const Words rest = Behind(typed, 2);
  words.insert(words.end(), rest.begin(), rest.end());
  return FromTable(root, words, 0).text;
}

std::string AdviceOn(const CLI::App& root, const std::string& group, const Words& rest);

// Whether the words name no command, so that ampctl has no help on them.
bool HelpOfOther(const CLI::App& root, const Words& words) {
  std::string unknown;
  return !words.empty() && FindCommand(&root, words, &unknown) == &root;
}

// Returns the advice on words that ampctl itself would understand, such as `version` after `kubectl`; empty if it would
// not.
std::string OfOwnCommand(const CLI::App& root, const Words& typed) {
  const ReadWords read = Read(root, typed);
  if (!typed.empty() && typed[0] == "help" && HelpOfOther(root, Behind(typed, 1))) {
    return "to see the help on commands; its topics are exit-codes, job-file and environment: ampctl help";
  }
  if (read.command == &root) {
    return "";
  }
  if (!read.unknown.empty()) {
    const auto unknown = std::find(typed.begin(), typed.end(), read.unknown);
    return AdviceOn(root, PathOf(*read.command), Words(unknown, typed.end()));
  }
  if (!SubcommandsOf(*read.command).empty()) {
    return absl::StrCat("did you mean: ampctl ", PathOf(*read.command), " --help");
  }
  const size_t num_words = Words(absl::StrSplit(PathOf(*read.command), ' ')).size();
  return DidYouMean(root, *read.command, Behind(typed, num_words));
}

// Returns the advice on words of another program, such as `docker run x`.
std::string OfProgram(const CLI::App& root, const Words& words) {
  const Words typed = InOwnSyntax(root, words);
  if (const Advice advice = FromTable(root, typed, 0); advice.num_words > 0) {
    return advice.text;
  }
  const std::string own = OfOwnCommand(root, InOwnSyntax(root, Behind(typed, 1)));
  return own.empty() ? AdviceOn(root, "", Behind(typed, 1)) : own;
}

// Returns the command that watch(1) would repeat, as in `watch -n 5 squeue`, without watch and its options. Empty if
// the words are another command.
Words RepeatedBy(const CLI::App& root, const Words& words) {
  constexpr std::string_view kLists[] = {"squeue", "sinfo", "sacct", "qstat", "bjobs", "bhosts", "qhost", "pbsnodes"};
  size_t begin = 1;
  while (begin < words.size() && words[begin].starts_with("-")) {
    begin += words[begin] == "-n" || words[begin] == "--interval" ? 2 : 1;
  }
  if (words.empty() || words[0] != "watch" || begin >= words.size()) {
    return {};
  }
  Words repeated = Behind(words, begin);
  const bool is_own_list = repeated.size() > 1 && repeated[1] == "list" && GroupNamed(root, repeated[0]) != nullptr;
  const bool is_list = std::find(std::begin(kLists), std::end(kLists), repeated[0]) != std::end(kLists);
  return is_own_list || is_list || IsProgram(repeated[0]) ? repeated : Words();
}

// Returns the advice on a word in the group of jobs that other programs have without a group, such as `job squeue`.
std::string OfVerbForJobs(const CLI::App& root, const Words& typed) {
  const std::string advice = FromTable(root, typed, 0).text;
  return absl::StrContains(advice, ": ampctl job ") ? advice : "";
}

// ForeignWordAdvice without what the options are about that the advice leaves out.
std::string AdviceOn(const CLI::App& root, const std::string& group, const Words& rest) {
  if (Words repeated = RepeatedBy(root, rest); group.empty() && !repeated.empty()) {
    repeated.push_back("--watch");
    return AdviceOn(root, "", repeated);
  }
  if (group.empty() && rest.size() > 1 && IsProgram(rest[0])) {
    return OfProgram(root, rest);
  }
  const Words typed = InOwnSyntax(root, rest);
  const Words after = Behind(typed, 1);
  if (!group.empty()) {
    const CLI::App* const known = GroupNamed(root, group);
    std::string advice = known == nullptr ? "" : InGroup(root, *known, typed[0], after);
    advice = advice.empty() && known != nullptr && group == "job" ? OfVerbForJobs(root, typed) : advice;
    return advice.empty() && known != nullptr ? OfVerb(root, typed[0], after) : advice;
  }
  const Advice from_table = FromTable(root, typed, 0);
  const bool has_two_words = !after.empty() && !after[0].starts_with('-');
  std::string advice;
  if (has_two_words && from_table.num_words < 2) {
    advice = OfVerbAndThing(root, typed);
    advice = advice.empty() ? OfThingWithoutGroup(root, typed) : advice;
    advice = advice.empty() ? OfThing(root, typed) : advice;
  }
  advice = advice.empty() ? from_table.text : advice;
  advice = advice.empty() ? OfThing(root, typed) : advice;
  advice = advice.empty() ? OfThingWithName(root, typed) : advice;
  return advice.empty() ? OfVerb(root, typed[0], after) : advice;
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
  const std::string advice = rest.empty() ? "" : AdviceOn(root, group, rest);
  const bool has_command = absl::StrContains(advice, ": ampctl ") && !absl::EndsWith(advice, ": ampctl init");
  return has_command ? absl::StrCat(advice, OptionsLeftOut(rest)) : advice;
}

std::string AdviceOnName(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest) {
  Words typed = {group};
  const Words words = rest.empty() ? rest : InOwnSyntax(root, rest);
  typed.insert(typed.end(), words.begin(), words.end());
  const bool has_more = rest.size() > 1 && !rest[1].starts_with('-');  // Then the first word is a verb.
  const bool is_verb = !rest.empty() && (has_more || IsVerb(rest[0]));
  return is_verb || GroupNamed(root, group) == nullptr ? "" : FromTable(root, typed, 0, NamesAfterGroups()).text;
}

}  // namespace ampd::client
