#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

// Words of a command line by the tree of commands, for what has to say something about a line that is not right or not
// whole: usage errors and completion.
namespace ampd::client {

// Subcommands that people see.
std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app);
std::vector<std::string> SubcommandNames(const CLI::App& app);

// "--name" of all options of `app` and, since options are taken behind every command, of those around it.
std::vector<std::string> OptionNames(const CLI::App& app);

// Words that name a command from the root on, "job submit"; empty for the root.
std::string PathOf(const CLI::App& app);

struct ReadWords {
  const CLI::App* command = nullptr;          // the deepest that the words name
  std::string unknown;                        // a word where only a command may stand, and that is none
  const CLI::Option* open = nullptr;          // the last word is this option, and its value is missing
  std::map<std::string, std::string> values;  // of the options, by their long names
  std::vector<std::string> positionals;       // words of `command` that are no options nor values of one
};

// Reads words as the parser would: an option that takes a value takes the next word. Stops at an unknown command.
ReadWords Read(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace ampd::client
