#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/commands/filter_meant.h"

namespace ampd::client {

// A command that ampctl does not have, but that users of kubectl, Slurm, gh and the like try, and what to type instead
// (ForeignAnswer).
struct ForeignWord {
  std::string words;    // what the user types after "ampctl"
  const char* row;      // the row of the table that the words come from (foreign_word_tables.h)
  const char* purpose;  // what the user wants to do: "list jobs"
  const char* command;  // the command that does it; empty: there is none, and `purpose` is the whole answer
};

// Returns the entries of all tables of foreign words. No entry names a command of ampctl. If several entries fit a
// command line, the longest one is used; if several have the same words, the advice names the commands of all of them.
// An entry that ends in ID or NAME fits only if the user has typed a name there. An entry that ends in FILE fits only
// if the name looks like that of a file, an entry that ends in YAML only if a name looks like that of a job file, and
// an entry that ends in SCRIPT only if a word looks like a script. The options of an entry may be anywhere after its
// other words.
std::span<const ForeignWord> ForeignWords();

// Returns the entries for a command group that is followed by a name in place of a command, such as "checkpoint ID".
std::span<const ForeignWord> NamesAfterGroups();

// Returns the advice for a command line that ampctl does not have, for example "to list jobs: ampctl job list". `group`
// is the command group that the user has typed after "ampctl" (empty: none), and `rest` are the words after it. The
// first word of `rest` is no command of the group. The advice comes from the table of foreign words, or from the kinds
// of the words: a verb that lacks its group or follows another one, the name of a thing, or a verb and a thing
// (foreign_verbs.h, things.h). In the advice, the user's own jobs and files replace ID, NAME and FILE, and the user's
// options follow if the command has them. Empty if there is no advice.
// REQUIRES: `root` is ampctl itself.
std::string ForeignWordAdvice(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest);

// Returns the advice for a word that is no command of `group` but may be a name, for example "to list a job's
// checkpoints: ampctl checkpoint list x" for "checkpoint x". Empty if the group has nothing with a name.
// REQUIRES: `root` is ampctl itself.
std::string AdviceOnName(const CLI::App& root, const std::string& group, const std::vector<std::string>& rest);

// An option of another program (`foreign`), and what to type instead in ampctl (`own`). In `own`, % stands for the
// option's value. `command` is the command of ampctl for which this row holds; empty: all commands.
struct ForeignOption {
  const char* command;
  const char* foreign;
  const char* own;
};
std::span<const ForeignOption> ForeignOptions();

// Whether the command changes fields of a job file with --set.
bool TakesOverrides(const std::string& command);

// Returns what to write in `command`, such as "job submit", in place of an option of another program: "--set
// priority=5" for "--priority" with the value "5". Empty if there is nothing. Call it only for an option that `command`
// does not have.
std::string RewrittenOption(const std::string& command, const std::string& option, const std::string& value);

// Whether this option of another program takes the word after it as its value.
bool TakesNextWord(const std::string& option);

// Returns a sentence that says what to do instead of `option`. This is an option for which `command` has no
// replacement, such as "--all", or a word that the command does not take, such as "stop" after "dev". `value` is the
// option's value; it may be empty. Returns "" if there is no such sentence.
std::string AnswerToOption(const std::string& command, const std::string& option, const std::string& value = "");

// Whether the word can stand in a command that a user copies, without quotes.
bool NeedsNoQuotes(const std::string& word);

// Returns `command` followed by the words, for a message that the user copies. A word that needs quotes is left to the
// user as "...".
std::string CommandLine(const std::string& command, const std::vector<std::string>& words);

// Returns the option of ampctl that does what `option` does in other programs, for example "--address" for "--server".
// Empty if there is none among `known`, the options that the command accepts.
std::string OptionForForeign(const std::string& option, const std::vector<std::string>& known);

}  // namespace ampd::client
