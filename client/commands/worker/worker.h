#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl worker: all its commands.
Command WorkerCommands();

// Each is in the file of its name.
Command ListWorkersCommand();
Command DrainWorkerCommand();
Command UndrainWorkerCommand();
Command RemoveWorkerCommand();

}  // namespace ampd::client
