#include "client/commands/worker/worker.h"

namespace ampd::client {

Command WorkerCommands() {
  return {.name = "worker",
          .help = "Show and drain workers",
          .commands = {
              ListWorkersCommand(),
              DrainWorkerCommand(),
              UndrainWorkerCommand(),
              RemoveWorkerCommand(),
          }};
}

}  // namespace ampd::client
