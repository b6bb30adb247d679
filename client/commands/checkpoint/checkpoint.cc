#include "client/commands/checkpoint/checkpoint.h"

namespace ampd::client {

Command CheckpointCommands() {
  return {.name = "checkpoint",
          .help = "Show, verify and export checkpoints of jobs",
          .commands = {
              ListCheckpointsCommand(),
              ShowCheckpointCommand(),
              VerifyCheckpointCommand(),
              ExportCheckpointCommand(),
              DeleteCheckpointCommand(),
          }};
}

}  // namespace ampd::client
