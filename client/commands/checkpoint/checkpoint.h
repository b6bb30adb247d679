#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl checkpoint` with all its commands.
Command CheckpointCommands();

// The subcommands of `ampctl checkpoint`. Each is defined in the file that has its name.
Command ListCheckpointsCommand();
Command ShowCheckpointCommand();
Command VerifyCheckpointCommand();
Command DownloadCheckpointCommand();
Command ExportCheckpointCommand();
Command DeleteCheckpointCommand();

}  // namespace ampd::client
