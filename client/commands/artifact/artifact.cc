#include "client/commands/artifact/artifact.h"

namespace ampd::client {

Command ArtifactCommands() {
  return {.name = "artifact",
          .help = "Uploaded files, and samples of jobs",
          .commands = {
              ListArtifactsCommand(),
              UploadArtifactCommand(),
              DownloadArtifactCommand(),
              DeleteArtifactCommand(),
          }};
}

}  // namespace ampd::client
