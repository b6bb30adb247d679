#include <memory>

#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job/job.h"

namespace ampd::client {

Command RetryJobCommand() {
  const auto options = std::make_shared<CloneOptions>();
  options->from_last_checkpoint = true;
  return {.name = "retry",
          .help =
              "Submit a copy of a failed or cancelled job. The copy resumes from the job's last checkpoint; if the job "
              "has none, the copy trains from the start",
          .examples = "  ampctl job retry ID --name second-try",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobId(&options->id), NewJobName(&options->name), RequestId(&options->request_id)},
          .run = [options](Session* session) { return CloneJob(session, *options); }};
}

}  // namespace ampd::client
