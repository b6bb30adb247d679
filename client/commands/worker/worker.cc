#include "client/commands/worker/worker.h"

namespace ampd::client {

Command WorkerCommands() {
  return {.name = "worker",
          .help = "List, drain, undrain and remove workers",
          .commands = {
              ListWorkersCommand(),
              DrainWorkerCommand(),
              UndrainWorkerCommand(),
              RemoveWorkerCommand(),
          }};
}

}  // namespace ampd::client
