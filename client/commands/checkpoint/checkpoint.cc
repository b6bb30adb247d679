#include "client/commands/checkpoint/checkpoint.h"

namespace ampd::client {

Command CheckpointCommands() {
  return {.name = "checkpoint",
          .help = "List, show, verify, export and delete checkpoints of jobs",
          .commands = {
              ListCheckpointsCommand(),
              ShowCheckpointCommand(),
              VerifyCheckpointCommand(),
              ExportCheckpointCommand(),
              DeleteCheckpointCommand(),
          }};
}

}  // namespace ampd::client
