#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command ResumeJobCommand() {
  const auto ids = std::make_shared<std::vector<std::string>>();
  return {.name = "resume",
          .help = "Resume paused jobs: they are queued again",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobIds(ids.get())},
          .run = [ids](Session* session) { return ChangeJobs(session, *ids, {.call = &JobClient::ResumeJob}); }};
}

}  // namespace ampd::client
