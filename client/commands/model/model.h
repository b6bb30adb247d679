#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl model` with all its commands.
Command ModelCommands();

// The subcommands of `ampctl model`. Each is defined in the file that has its name.
Command InspectModelCommand();

}  // namespace ampd::client
