#include <memory>
#include <string>

#include "client/commands/worker/change_worker.h"
#include "client/commands/worker/worker.h"

namespace ampd::client {

Command DrainWorkerCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "drain",
          .help =
              "Drain a worker: it gets no new jobs until ampctl worker undrain. Its running jobs write a checkpoint "
              "and are queued again. If only this worker can read the checkpoint, the job waits for it as long as the "
              "server's --local-checkpoint-wait says (10m by default), and then starts over on another worker. The "
              "command does not wait for the checkpoints",
          .examples =
              "  ampctl worker drain NAME\n"
              "  ampctl worker list --watch           the worker is free when its JOBS are 0",
          .formats = AllFormats(),
          .arguments = {WorkerName(name.get())},
          .run = [name](Session* session) { return ChangeWorker(session, *name, &JobClient::DrainWorker); }};
}

}  // namespace ampd::client
