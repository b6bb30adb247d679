#include "client/commands/artifact/artifact.h"

namespace ampd::client {

Command ArtifactCommands() {
  return {.name = "artifact",
          .help = "Upload files, and download them or the samples of jobs",
          .commands = {
              ListArtifactsCommand(),
              UploadArtifactCommand(),
              DownloadArtifactCommand(),
              DeleteArtifactCommand(),
          }};
}

}  // namespace ampd::client
