#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"

namespace ampd::client {
namespace {

struct UpdateOptions {
  std::vector<std::string> ids;
  int priority = 0;
};

int UpdateJobs(Session* session, const UpdateOptions& options) {
  v1::UpdateJobRequest request;
  request.mutable_update_mask()->add_paths("priority");
  request.set_priority(options.priority);
  const auto update = [&request](JobClient* client, const std::string& id) {
    request.set_id(id);
    return client->UpdateJob(request);
  };
  const auto priority = [](const v1::Job& job) { return absl::StrCat("priority ", job.spec().priority()); };
  return ChangeJobs(session, options.ids, {.call = update, .text = priority});
}

}  // namespace

Command UpdateJobsCommand() {
  const auto options = std::make_shared<UpdateOptions>();
  return {.name = "update",
          .help = "Change the priority of jobs that have not ended",
          .examples = "  ampctl job update ID --priority 10",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobIds(&options->ids),
                        {.name = "--priority",
                         .value = &options->priority,
                         .text = "N",
                         .help = "New priority, from -1000 to 1000; a job whose file sets none has 0. Of the queued "
                                 "jobs, those with a higher priority start first. Running jobs are not interrupted",
                         .required = true,
                         .check = InRange(-1000, 1000)}},
          .run = [options](Session* session) { return UpdateJobs(session, *options); }};
}

}  // namespace ampd::client
