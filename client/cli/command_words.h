#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

// Resolves the words of a command line in the tree of commands, for usage errors and completion: the line may be wrong
// or incomplete.
namespace ampd::client {

// The subcommands that are shown to people.
std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app);
std::vector<std::string> SubcommandNames(const CLI::App& app);

// "--name" for each option of `app` and of the commands around it, because a command also accepts their options.
std::vector<std::string> OptionNames(const CLI::App& app);

// Finds an option by its name without dashes, in `app` or in a command around it. Null if there is none.
const CLI::Option* FindOption(const CLI::App* app, const std::string& name, bool is_long);

// The words that lead from the root to the command, such as "job submit"; empty for the root.
std::string PathOf(const CLI::App& app);

struct ReadWords {
  const CLI::App* command = nullptr;          // the deepest command that the words name
  std::string unknown;                        // a word in the place of a command that is not one
  const CLI::Option* open = nullptr;          // the option that ends the line and whose value is missing
  std::map<std::string, std::string> values;  // values of the options, by the options' long names
  std::vector<std::string> positionals;       // other words of `command`: neither options nor values of options
};

// Reads the words as the parser would: an option that takes a value takes the next word. Stops at an unknown command.
ReadWords Read(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace ampd::client
