#include "client/commands/artifact/artifact.h"

namespace ampd::client {

Command ArtifactCommands() {
  return {.name = "artifact",
          .help =
              "List, upload, download and delete files on the server, and the texts and pictures (samples) that jobs "
              "generate",
          .commands = {
              ListArtifactsCommand(),
              UploadArtifactCommand(),
              DownloadArtifactCommand(),
              DeleteArtifactCommand(),
          }};
}

}  // namespace ampd::client
