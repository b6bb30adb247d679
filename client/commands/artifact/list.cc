#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

// Lists the artifacts of one job, or all artifacts if `job` is empty.
int ListArtifacts(Session* session, const std::string& job) {
  const auto list = [&](JobClient* client) -> absl::StatusOr<std::vector<v1::Artifact>> {
    auto artifacts = client->ListArtifacts(job);
    if (artifacts.ok() && artifacts->empty() && !job.empty()) {
      AMPD_RETURN_IF_ERROR(client->GetJob(job).status());  // so that a mistyped id is an error and not an empty list
    }
    return artifacts;
  };
  return CallAndShow(session, list,
                     [&](const std::vector<v1::Artifact>& artifacts) { PrintArtifacts(*session, artifacts, job); });
}

}  // namespace

Command ListArtifactsCommand() {
  const auto job = std::make_shared<std::string>();
  return {.name = "list",
          .alias = "ls",
          .help = "List uploads and samples, newest first",
          .formats = AllFormats(),
          .arguments = {{.name = "--job",
                         .value = job.get(),
                         .text = "JOB",
                         .help = "List only the samples of this job",
                         .check = CheckNotEmpty,
                         .suggest = SuggestJobIds}},
          .run = [job](Session* session) { return ListArtifacts(session, *job); }};
}

}  // namespace ampd::client
