#include <memory>
#include <string>

#include "client/commands/worker/change_worker.h"
#include "client/commands/worker/worker.h"

namespace ampd::client {

Command UndrainWorkerCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "undrain",
          .help = "Undo a drain: the worker gets jobs again",
          .formats = AllFormats(),
          .arguments = {WorkerName(name.get())},
          .run = [name](Session* session) { return ChangeWorker(session, *name, &JobClient::UndrainWorker); }};
}

}  // namespace ampd::client
