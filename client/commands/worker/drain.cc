#include <memory>
#include <string>

#include "client/commands/worker/change_worker.h"
#include "client/commands/worker/worker.h"

namespace ampd::client {

Command DrainWorkerCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "drain",
          .help = "Give a worker no new jobs; its jobs write a checkpoint and move to others",
          .examples = "  ampctl worker drain NAME\n  ampctl worker list",
          .formats = AllFormats(),
          .arguments = {WorkerName(name.get())},
          .run = [name](Session* session) { return ChangeWorker(session, *name, &JobClient::DrainWorker); }};
}

}  // namespace ampd::client
