#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl checkpoint: all its commands.
Command CheckpointCommands();

// Each is in the file of its name.
Command ListCheckpointsCommand();
Command ShowCheckpointCommand();
Command VerifyCheckpointCommand();
Command ExportCheckpointCommand();
Command DeleteCheckpointCommand();

}  // namespace ampd::client
