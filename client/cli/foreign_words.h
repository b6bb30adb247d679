#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

namespace ampd::client {

// A command that ampctl does not have, but that users of kubectl, Slurm, gh and the like try, and what to type instead
// (ForeignAnswer).
struct ForeignWord {
  std::string words;    // what the user types after "ampctl"
  const char* row;      // the row of the table that the words come from (foreign_word_tables.h)
  const char* purpose;  // what it is for: "list jobs"
  const char* command;  // the command that does it; empty: there is none, and `purpose` is the whole answer
};

// Returns every foreign word that ampctl knows, from all tables. None of them names a command of ampctl. If several fit
// a command line, the longest one is used; if several have the same words, all their commands are named. An entry that
// ends in ID or NAME fits only if the user has typed a name there, one that ends in FILE only if that name looks like
// that of a file, and one that ends in SCRIPT only if it looks like a script. An option in an entry may stand anywhere
// behind its words.
std::span<const ForeignWord> ForeignWords();

// Returns what the name of a group means if a name follows in place of a command: "checkpoint ID".
std::span<const ForeignWord> NamesAfterGroups();

// Returns the advice for the words that a user has typed after "ampctl", for example "to list jobs: ampctl job list".
// It comes from the table of foreign words, or from what the words are: a verb that stands without its group or in
// another group, the name of a thing, or a verb and a thing (foreign_verbs.h, things.h). `group` is the command group
// of which the first of `rest` should be a command; empty: ampctl itself. The advice has the user's own jobs and files
// in place of ID, NAME and FILE, and those of the user's options that its command has. Empty if there is no advice.
// REQUIRES: `root` is ampctl itself.
std::string ForeignWordAdvice(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest);

// Returns the advice for a word that is no command of `group` but may be a name, for example "to list a job's
// checkpoints: ampctl checkpoint list x" for "checkpoint x". Empty if the group has nothing with a name.
// REQUIRES: as for ForeignWordAdvice.
std::string AdviceOnName(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest);

// An option of another program, and what to type instead in ampctl. `own` has % where the option's value belongs. The
// row holds for one command, or for all if `command` is empty.
struct ForeignOption {
  const char* command;
  const char* foreign;
  const char* own;
};
std::span<const ForeignOption> ForeignOptions();

// Returns what to write in `command`, such as "job submit", in place of an option that other programs have:
// "--set priority=5" for "--priority" with the value "5". Empty if there is nothing. Asked only for options that the
// command does not have.
std::string RewrittenOption(const std::string& command, const std::string& option, const std::string& value);

// Whether the next word is the value of this option of another program.
bool TakesNextWord(const std::string& option);

// Returns a sentence that says what to do in place of an option that no option of `command` replaces, such as "--all",
// or of a word that the command does not take, such as "stop" after "dev". `value` is the option's value, or empty.
// Empty if there is none.
std::string AnswerToOption(const std::string& command, const std::string& option, const std::string& value = "");

// Whether the word can stand in a command that a user copies, without quotes.
bool NeedsNoQuotes(const std::string& word);

// Returns `command` followed by the words, for a message that the user copies. A word that needs quotes is left to the
// user as "...".
std::string CommandLine(const std::string& command, const std::vector<std::string>& words);

// The end of an answer with "owner=NAME": how the user learns the name.
inline constexpr char kAboutOwner[] = " (your NAME: ampctl auth whoami -q)";

// Returns the option of ampctl that does what `option` does in other programs, for example "--address" for "--server".
// Empty if there is none among `known`, the options that the command accepts.
std::string OptionForForeign(const std::string& option, const std::vector<std::string>& known);

}  // namespace ampd::client
