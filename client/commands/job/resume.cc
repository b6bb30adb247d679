#include <memory>

#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command ResumeJobCommand() {
  const auto ids = std::make_shared<std::vector<std::string>>();
  const auto was_paused = std::make_shared<bool>(false);  // whether the job of the last call was paused before the call
  const auto resume = [was_paused](JobClient* client, const std::string& id) -> absl::StatusOr<v1::Job> {
    AMPD_ASSIGN_OR_RETURN(const v1::Job before, client->GetJob(id));
    *was_paused = before.state() == v1::Job::PAUSED || before.state() == v1::Job::PAUSING;
    return client->ResumeJob(id);
  };
  const auto note = [was_paused](const v1::Job& job) {
    return *was_paused ? "" : Printable(job.id()) + " was not paused; nothing was changed";
  };
  return {
      .name = "resume",
      .help = "Resume paused jobs: they are queued again, and continue from their newest checkpoint, if they have one",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {JobIds(ids.get())},
      .run = [ids, resume, note](Session* session) {
        return ChangeJobs(session, *ids, {.call = resume, .note = note});
      }};
}

}  // namespace ampd::client
