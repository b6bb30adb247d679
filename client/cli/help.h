#pragma once

#include "client/cli/command_tree.h"

namespace ampd::client {

// The command `ampctl help [COMMAND... | TOPIC]`. `ampctl help job list` prints what `ampctl job list --help` prints.
// REQUIRES: `tree` outlives the command.
Command HelpCommand(const CommandTree* tree);

}  // namespace ampd::client
