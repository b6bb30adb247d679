#include "client/cli/answers/foreign_words.h"

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
#include "client/cli/answers/command_words.h"
#include "client/cli/answers/dropped_options.h"
#include "client/cli/answers/foreign_entry.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_verbs.h"
#include "client/cli/answers/left_out.h"
#include "client/cli/answers/own_words.h"
#include "client/cli/answers/safe_answers.h"
#include "client/cli/answers/several_jobs.h"
#include "client/cli/answers/shell_lines.h"
#include "client/cli/answers/things.h"
#include "client/cli/answers/typed_options.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

Words Behind(const Words& typed, size_t num) {
  return Words(typed.begin() + static_cast<std::ptrdiff_t>(std::min(num, typed.size())), typed.end());
}

// The advice of a table of foreign words. `num_words` says how many of the typed words, from the first one on, are the
// fixed words of the table's entry; 0 if no entry fits the typed words.
struct Advice {
  std::string text;
  size_t num_words = 0;
};

// Returns the advice to type `text`, a command line of `command`. In it, names from `rest`, which has the user's own
// words, replace the placeholders, and options from `rest` are appended. The advice begins with `intro`, which says
// what the command does. If the user meant several jobs, returns the answer of CallsForSeveralJobs instead.
std::string Advise(const CLI::App& root, const std::string& intro, const CLI::App& command, const std::string& text,
                   const Words& rest) {
  const std::string several = CallsForSeveralJobs(root, command, text, rest);
  return several.empty() ? intro + InShell(WithOwnWords(command, text, rest), rest) : several;
}

// Returns the sentence with the user's names in place of OLD and NEW.
std::string WithBothNames(const std::string& sentence, const Words& names) {
  return names.size() < 2
             ? sentence
             : absl::StrReplaceAll(sentence, {{" OLD", " " + names[0]}, {" NEW ", absl::StrCat(" ", names[1], " ")}});
}

// Looks the typed words up in `table`, and returns what to type instead. If several entries have the same words, the
// user may mean any of them, and the advice names all of their commands.
Advice FromTable(const CLI::App& root, const Words& typed, size_t num_in_group,
                 std::span<const ForeignWord> table = ForeignWords()) {
  Advice advice;
  std::string_view words;
  std::pair<size_t, size_t> matched;  // number of all parts, and of fixed words, of the best entry so far
  for (const ForeignWord& word : table) {
    const ForeignEntry entry = EntryOf(word);
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
                                 ? WithBothNames(word.purpose, names)
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

// Returns the advice on a verb in the wrong group or without a group. If no group of ampctl has the verb, it may be
// another program's name for one of ampctl's verbs. Such a verb without a group is most often meant for jobs.
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

// Returns the advice on words that are a command of ampctl itself, such as `version` after `kubectl`. Empty if they are
// none.
std::string OfOwnCommand(const CLI::App& root, const Words& typed) {
  const ReadWords read = Read(root, typed);
  if (!typed.empty() && typed[0] == "help" && HelpOfOther(root, Behind(typed, 1))) {
    return "to see the help on a command, or on a topic (exit-codes, job-file or environment): ampctl help";
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

// Returns the advice on a word after `ampctl job` that is a command of another program and needs no `job` there, such
// as squeue in `ampctl job squeue`.
std::string OfVerbForJobs(const CLI::App& root, const Words& typed) {
  const std::string advice = FromTable(root, typed, 0).text;
  return absl::StrContains(advice, ": ampctl job ") || absl::StrContains(advice, ": for ") ? advice : "";
}

// Returns the advice on a job's name in front of the verb, such as `job mlp logs`. `known` holds names of commands: a
// word that resembles one of these is a typing error and not a job's name.
std::string OfNameAndVerb(const CLI::App& root, const Words& typed, const Words& known) {
  const CLI::App* const jobs = GroupNamed(root, "job");
  if (jobs == nullptr || typed.size() < 2 || !Nearest(typed[0], known).empty()) {
    return "";
  }
  std::string unknown;
  const CLI::App* const own = FindCommand(jobs, {typed[1]}, &unknown);
  const CLI::App* const command = unknown.empty() ? own : CommandForForeignVerb(*jobs, typed[1]);
  if (command == nullptr || !absl::StrContains(CallOf(*command), " ID")) {
    return "";
  }
  Words rest = Behind(typed, 2);
  rest.insert(rest.begin(), typed[0]);
  return DidYouMean(root, *command, rest);
}

// Returns the first part of the text of ForeignWordAdvice: the suggested command. The other part names the user's
// options that the suggestion does not contain.
std::string AdviceOn(const CLI::App& root, const std::string& group, const Words& rest) {
  if (group.empty() && rest.size() > 1 && IsProgram(rest[0])) {
    return OfProgram(root, rest);
  }
  const Words typed = InOwnSyntax(root, rest);
  const Words after = Behind(typed, 1);
  if (!group.empty()) {
    const CLI::App* const known = GroupNamed(root, group);
    if (known == nullptr) {
      return "";
    }
    if (const std::string filter = FilterForWord(typed[0]); group == "job" && after.empty() && !filter.empty()) {
      return "to list such jobs: ampctl job list " + filter;
    }
    std::string advice = InGroup(root, *known, typed[0], after);
    advice = advice.empty() && group == "job" ? OfVerbForJobs(root, typed) : advice;
    advice = advice.empty() ? OfVerb(root, typed[0], after) : advice;
    return advice.empty() && group == "job" ? OfNameAndVerb(root, typed, SubcommandNames(*known)) : advice;
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
  advice = advice.empty() ? OfVerb(root, typed[0], after) : advice;
  return advice.empty() ? OfNameAndVerb(root, typed, SubcommandNames(root)) : advice;
}

// Returns the advice, followed by the names of the user's options that it leaves out. If the advice could do more than
// the user meant, returns a safe answer in its place (safe_answers.h). `answer` returns the advice on other words.
std::string WithOptionsLeftOut(const CLI::App& root, const std::string& advice, const Words& words,
                               const Answering& answer) {
  // The advice is either a call to make, or a sentence about something that ampd lacks. Such a sentence answers the
  // whole command line, so it leaves out no option.
  const bool is_call = advice.starts_with("to ") || advice.starts_with("did you mean") || advice.starts_with("for ");
  Words dropped = is_call ? DroppedOptions(words, answer) : Words();
  const SafeAnswer safe = InsteadOf(root, advice, words, dropped);
  if (safe.is_complete) {
    return safe.text;
  }
  if (safe.is_list) {
    dropped = DroppedOptions(words, [&](const Words& some) { return ListOfJobs(root, some, {}); });
  }
  std::erase_if(dropped,
                [&safe](const std::string& option) { return absl::StrContains(safe.text, " " + option + ";"); });
  const std::string text = safe.text.empty() ? advice : safe.text;
  const bool needs_owner = absl::StrContains(text, "owner=NAME");
  return absl::StrCat(text, needs_owner ? kAboutOwner : "", OptionsLeftOut(words, dropped));
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
  Words words = group.empty() ? RepeatedBy(root, rest) : Words();
  const bool is_repeated = !words.empty();
  words = PlainOptions(is_repeated ? words : rest);
  if (is_repeated) {
    words.push_back("--watch");
  }
  const auto answer = [&](const Words& some) { return InServerAndTenant(root, AdviceOn(root, group, some), some); };
  const std::string advice = answer(words);
  const bool has_call = absl::StrContains(advice, ": ampctl ") || absl::StrContains(advice, ": for ");
  const bool has_command = has_call && !absl::EndsWith(advice, ": ampctl init");
  return has_command ? WithOptionsLeftOut(root, advice, words, answer) : advice;
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
