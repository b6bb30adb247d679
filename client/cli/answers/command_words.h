#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

// Finds out which commands, options and values the words of a command line mean. Usage errors and completion need this
// for lines that are wrong or incomplete, which the parser rejects.
namespace ampd::client {

// Returns the subcommands of `app` that help and completion show, which leaves out hidden ones.
std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app);
std::vector<std::string> SubcommandNames(const CLI::App& app);

// Returns the command to which the words lead from `root`. If a word names no command, returns the command before it
// and sets `unknown` to that word.
const CLI::App* FindCommand(const CLI::App* root, const std::vector<std::string>& words, std::string* unknown);

// Returns the command whose plural is `word`, such as "job" for "jobs"; empty if `commands` has none.
std::string Singular(const std::string& word, const std::vector<std::string>& commands);

// Returns "--name" for each option that may follow the command `app`: its own options and those of its parent commands.
std::vector<std::string> OptionNames(const CLI::App& app);

// Finds an option of `app`, or of one of its parent commands, by its name without dashes. Returns null if there is
// none.
const CLI::Option* FindOption(const CLI::App* app, const std::string& name, bool is_long);

// Returns the words that lead from the root to the command `app`, such as "job submit"; empty for the root.
std::string PathOf(const CLI::App& app);

struct ReadWords {
  const CLI::App* command = nullptr;  // the deepest command that the words name
  std::string unknown;  // the word in a command's place that names no command; empty: there is no such word
  const CLI::Option* open = nullptr;          // the option at the end of the line if its value is missing, else null
  std::map<std::string, std::string> values;  // value of each option given, by the option's long name
  std::vector<std::string> positionals;       // words after `command` that are neither options nor values of options
};

// Reads the words of a command line as the parser would: an option that takes a value takes the next word. Stops at a
// word that should name a command but does not.
ReadWords Read(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace ampd::client
