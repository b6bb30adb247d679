#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command PauseJobCommand() {
  const auto ids = std::make_shared<std::vector<std::string>>();
  return {.name = "pause",
          .help =
              "Pause jobs: running ones write a checkpoint and free their device, and queued ones are not started. "
              "Does not wait for the checkpoint",
          .examples =
              "  ampctl job pause ID\n"
              "  ampctl job wait ID --for PAUSED      until the checkpoint is written",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobIds(ids.get())},
          .run = [ids](Session* session) { return ChangeJobs(session, *ids, {.call = &JobClient::PauseJob}); }};
}

}  // namespace ampd::client
