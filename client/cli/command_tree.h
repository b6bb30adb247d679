#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "client/commands/command.h"

namespace ampd::client {

// ampctl's commands as CLI11 parses them: makes a CLI11 subcommand or option of each Command and Argument, and finds
// these by CLI11's objects, for help, usage errors and completion. Single-threaded.
class CommandTree {
 public:
  // The commands are added below `root`. REQUIRES: `root` outlives this object.
  explicit CommandTree(CLI::App* root) : root_(root) {}
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  void AddCommand(Command command) { AddBelow(root_, std::move(command)); }
  // Adds an option that every command accepts.
  void AddGlobal(Argument argument) { AddArgument(root_, std::move(argument)); }

  CLI::App* root() const { return root_; }
  // The command of a subcommand. REQUIRES: `app` is a subcommand below the root.
  const Command& CommandOf(const CLI::App* app) const { return commands_.at(app); }
  // Null if the option is CLI11's own, such as --help.
  const Argument* ArgumentOf(const CLI::Option* option) const;
  // The -o values that a subcommand supports; all if it is a group or the root.
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
