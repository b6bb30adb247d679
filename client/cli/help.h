#pragma once

#include "client/cli/command_tree.h"

namespace ampd::client {

// The command `ampctl help [TOPIC]`. REQUIRES: `tree` outlives the command.
Command HelpCommand(const CommandTree* tree);

}  // namespace ampd::client
