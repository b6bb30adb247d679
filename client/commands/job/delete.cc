#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/arguments.h"
#include "client/commands/confirm_delete.h"
#include "client/commands/job/change.h"
#include "client/commands/job/job.h"
#include "client/render/shell_word.h"

namespace ampd::client {
namespace {

struct DeleteOptions {
  std::vector<std::string> ids;
  bool confirmed = false;
};

absl::StatusOr<v1::Job> DeleteJob(JobClient* client, const std::string& id) {
  if (const absl::Status deleted = client->DeleteJob(id); !deleted.ok()) {
    return deleted;
  }
  v1::Job job;
  job.set_id(id);
  return job;
}

int DeleteJobs(Session* session, const DeleteOptions& options) {
  std::vector<std::string> words;
  std::transform(options.ids.begin(), options.ids.end(), std::back_inserter(words), ShellWord);
  const auto refused = AskBeforeDelete(session, options.confirmed,
                                       absl::StrCat("delete ", options.ids.size(), " job(s) with all their data?"),
                                       absl::StrCat("job delete --yes ", absl::StrJoin(words, " ")));
  const auto text = [](const v1::Job&) { return "deleted"; };
  return refused.has_value() ? *refused : ChangeJobs(session, options.ids, {.call = DeleteJob, .text = text});
}

}  // namespace

Command DeleteJobCommand() {
  const auto options = std::make_shared<DeleteOptions>();
  return {
      .name = "delete",
      .help =
          "Delete jobs that have ended, with all their data: history, log, checkpoints, and the files that they made",
      .examples =
          "  ampctl job delete ID\n"
          "  ampctl job list -q --filter state=failed | xargs -r ampctl job delete --yes",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {JobIds(&options->ids), Yes(&options->confirmed)},
      .run = [options](Session* session) { return DeleteJobs(session, *options); }};
}

}  // namespace ampd::client
