#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/answers/command_words.h"

// Corrects command lines of ampctl whose words are right but stand in the wrong place. Each function returns whole
// command lines, with all words of the user, that can be copied into a shell.
namespace ampd::client {

// An option in front of the command that it belongs to.
struct EarlyOption {
  std::string option;            // as typed, such as "-f"; empty: there is none
  const CLI::App* at = nullptr;  // the group, or ampctl itself, in which the option stands
  std::string line;              // the command line with the option behind the command
};

// Finds an option in front of its command, as in `ampctl -f job.yaml job submit`, or in place of a command, as in
// `ampctl job --filter state=queued`, if only one command of the group has the option.
EarlyOption FindEarlyOption(const CLI::App& root, const std::vector<std::string>& words);

// Returns the command line for a command that is written in one word: `ampctl job list -q` for {"joblist", "-q"}. Empty
// if the first of `words` is no such command.
std::string WithSplitCommand(const CLI::App& root, const std::vector<std::string>& words);

// Returns one command line for each of several names, of which the command takes only one: "for each of them: ampctl
// job logs a && ampctl job logs b". Empty if the words are no such names, or are too many.
std::string OneLineEach(const ReadWords& read, const std::vector<std::string>& words);

// Returns the command line in which the word that the command does not take is the value of an option: `ampctl artifact
// list --job mlp` for `ampctl artifact list mlp`, `ampctl job update mlp --priority 5` for `... priority=5`. Empty if
// no option takes such a word.
std::string WithOptionForWord(const ReadWords& read, const std::vector<std::string>& words);

// Returns the option with the values of all options --filter in `words`, joined by AND. Empty if one of them can't be
// written in single quotes.
std::string JoinedFilters(const std::vector<std::string>& words);

}  // namespace ampd::client
