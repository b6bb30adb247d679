#include "client/commands/checkpoint/checkpoint.h"

namespace ampd::client {

Command CheckpointCommands() {
  return {.name = "checkpoint",
          .help = "List, show, download, verify, export and delete checkpoints of jobs",
          .commands = {
              ListCheckpointsCommand(),
              ShowCheckpointCommand(),
              VerifyCheckpointCommand(),
              DownloadCheckpointCommand(),
              ExportCheckpointCommand(),
              DeleteCheckpointCommand(),
          }};
}

}  // namespace ampd::client
