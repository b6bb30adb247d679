#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {
namespace {

// Returns a note if the job ended in another way before the cancellation; empty if it was cancelled.
std::string EndedBefore(const v1::Job& job) {
  const bool ended = job.state() == v1::Job::SUCCEEDED || job.state() == v1::Job::FAILED;
  return ended ? Printable(job.id()) + " had already ended; nothing was changed" : "";
}

}  // namespace

Command CancelJobCommand() {
  const auto ids = std::make_shared<std::vector<std::string>>();
  return {
      .name = "cancel",
      .help =
          "End jobs for good. Their checkpoints stay, but no new one is written: to keep the progress since the last "
          "one, first pause the job and wait until it is PAUSED (ampctl job wait ID --for PAUSED)",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {JobIds(ids.get())},
      .run = [ids](Session* session) {
        return ChangeJobs(session, *ids, {.call = &JobClient::CancelJob, .note = EndedBefore});
      }};
}

}  // namespace ampd::client
