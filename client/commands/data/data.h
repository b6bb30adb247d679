#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl data` with all its commands.
Command DataCommands();

// The subcommands of `ampctl data`. Each is defined in the file that has its name.
Command InspectDataCommand();
Command TokenizeDataCommand();
Command PackDataCommand();

}  // namespace ampd::client
