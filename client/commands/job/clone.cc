#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command CloneJobCommand() {
  const auto options = std::make_shared<CloneOptions>();
  return {.name = "clone",
          .help = "Submit a copy of a job; the copy trains from the start",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobId(&options->id), NewJobName(&options->name), RequestId(&options->request_id)},
          .run = [options](Session* session) { return CloneJob(session, *options); }};
}

}  // namespace ampd::client
