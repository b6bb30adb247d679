#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl artifact: all its commands.
Command ArtifactCommands();

// Each is in the file of its name.
Command ListArtifactsCommand();
Command UploadArtifactCommand();
Command DownloadArtifactCommand();
Command DeleteArtifactCommand();

}  // namespace ampd::client
