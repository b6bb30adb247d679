#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "client/commands/command.h"

namespace ampd::client {

// Holds ampctl's commands in the form that CLI11 parses: a CLI11 subcommand for each Command and a CLI11 option for
// each Argument. Help, usage errors and completion find a Command or Argument by its CLI11 object. Single-threaded.
class CommandTree {
 public:
  // Starts with no commands; they are added below `root`. REQUIRES: `root` outlives this object.
  explicit CommandTree(CLI::App* root) : root_(root) {}
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  void AddCommand(Command command) { AddBelow(root_, std::move(command)); }
  // Adds an option that every command accepts.
  void AddGlobal(Argument argument) { AddArgument(root_, std::move(argument)); }

  CLI::App* root() const { return root_; }
  // Returns the Command for which the subcommand `app` was made. REQUIRES: `app` is a subcommand below the root.
  const Command& CommandOf(const CLI::App* app) const { return commands_.at(app); }
  // Returns the Argument for which the option was made, or null if the option is CLI11's own, such as --help.
  const Argument* ArgumentOf(const CLI::Option* option) const;
  // Returns the -o values that the subcommand `app` supports; every value if `app` is the root or a group of commands.
  FormatSet FormatsOf(const CLI::App* app) const;

  // The subcommand that the last parse found. REQUIRES: the parse succeeded.
  const CLI::App* selected() const { return selected_; }

 private:
  void AddBelow(CLI::App* parent, Command command);
  void AddArgument(CLI::App* app, Argument argument);

  CLI::App* const root_;
  std::map<const CLI::App*, Command> commands_;
  std::map<const CLI::Option*, Argument> arguments_;
  const CLI::App* selected_ = nullptr;
};

}  // namespace ampd::client
