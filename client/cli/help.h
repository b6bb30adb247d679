#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "client/cli/command_tree.h"

namespace ampd::client {

// Returns what `--help` prints for the command.
std::string HelpOf(const CLI::App& command);

// The command `ampctl help [COMMAND... | TOPIC]`. `ampctl help job list` prints what `ampctl job list --help` prints.
// REQUIRES: `tree` outlives the command.
Command HelpCommand(const CommandTree* tree);

}  // namespace ampd::client
