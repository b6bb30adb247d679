#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl worker` with all its commands.
Command WorkerCommands();

// The subcommands of `ampctl worker`. Each is defined in the file that has its name.
Command ListWorkersCommand();
Command DrainWorkerCommand();
Command UndrainWorkerCommand();
Command RemoveWorkerCommand();

}  // namespace ampd::client
