#include <memory>
#include <string>

#include "client/commands/worker/change_worker.h"
#include "client/commands/worker/worker.h"

namespace ampd::client {

Command DrainWorkerCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "drain",
          .help = "Give it no new work; its jobs checkpoint and move",
          .examples = "  ampctl worker drain NAME\n  ampctl worker list",
          .formats = AllFormats(),
          .arguments = {WorkerName(name.get())},
          .run = [name](Session* session) { return ChangeWorker(session, *name, &JobClient::DrainWorker); }};
}

}  // namespace ampd::client
