#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command RetryJobCommand() {
  const auto options = std::make_shared<CloneOptions>();
  options->from_last_checkpoint = true;
  return {.name = "retry",
          .help = "Submit a finished job again; resume from its last checkpoint",
          .examples = "  ampctl job retry ID --name second-try",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobId(&options->id), NewJobName(&options->name)},
          .run = [options](Session* session) { return CloneJob(session, *options); }};
}

}  // namespace ampd::client
