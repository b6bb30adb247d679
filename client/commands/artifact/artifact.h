#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl artifact` with all its commands.
Command ArtifactCommands();

// The subcommands of `ampctl artifact`. Each is defined in the file that has its name.
Command ListArtifactsCommand();
Command UploadArtifactCommand();
Command DownloadArtifactCommand();
Command DeleteArtifactCommand();

}  // namespace ampd::client
