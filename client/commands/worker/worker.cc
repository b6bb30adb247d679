#include "client/commands/worker/worker.h"

namespace ampd::client {

Command WorkerCommands() {
  return {.name = "worker",
          .help = "Workers and their devices",
          .commands = {
              ListWorkersCommand(),
              DrainWorkerCommand(),
              UndrainWorkerCommand(),
              RemoveWorkerCommand(),
          }};
}

}  // namespace ampd::client
