#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command PauseJobCommand() {
  const auto ids = std::make_shared<std::vector<std::string>>();
  return {.name = "pause",
          .help = "Pause jobs: they write a checkpoint and free their device",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobIds(ids.get())},
          .run = [ids](Session* session) { return ChangeJobs(session, *ids, {.call = &JobClient::PauseJob}); }};
}

}  // namespace ampd::client
