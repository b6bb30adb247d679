#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl context` with all its commands.
Command ContextCommands();

// The subcommands of `ampctl context`. Each is defined in the file that has its name.
Command AddContextCommand();
Command UseContextCommand();
Command RemoveContextCommand();
Command ListContextsCommand();
Command ShowContextCommand();

}  // namespace ampd::client
