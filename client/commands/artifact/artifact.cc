#include "client/commands/artifact/artifact.h"

namespace ampd::client {

Command ArtifactCommands() {
  return {
      .name = "artifact",
      .help =
          "List, upload, download and delete files on the server: uploaded ones, and those that jobs make (samples, "
          "predictions and profiles)",
      .commands = {
          ListArtifactsCommand(),
          UploadArtifactCommand(),
          DownloadArtifactCommand(),
          DeleteArtifactCommand(),
      }};
}

}  // namespace ampd::client
