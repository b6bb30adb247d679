#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/call.h"
#include "client/commands/sorting.h"
#include "client/commands/suggestions.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ListOptions {
  std::string job;  // lists only the files that this job has made; empty: lists all files
  std::string sort;
};

const std::vector<SortField<v1::Artifact>>& ArtifactSortFields() {
  using Fields = std::vector<SortField<v1::Artifact>>;
  static const Fields* const kFields = new Fields{
      {"name", [](const v1::Artifact& artifact) { return artifact.name(); }},
      {"size", [](const v1::Artifact& artifact) { return static_cast<double>(artifact.size_bytes()); }},
      {"file", [](const v1::Artifact& artifact) { return artifact.file_name(); }},
      {"job", [](const v1::Artifact& artifact) { return artifact.job_id(); }},
      {"age", [](const v1::Artifact& artifact) { return -static_cast<double>(artifact.create_time().seconds()); }}};
  return *kFields;
}

std::vector<v1::Artifact> InOrder(std::vector<v1::Artifact> artifacts, const std::string& sort) {
  if (sort.empty()) {
    return artifacts;
  }
  const SortOrder order = ParseSortOrder(sort);
  SortBuffer<v1::Artifact> sorted(order.is_descending, /*limit=*/0);
  for (v1::Artifact& artifact : artifacts) {
    SortValue value = SortValueOf(ArtifactSortFields(), order, artifact);
    sorted.Add(std::move(value), std::move(artifact));
  }
  return sorted.Take();
}

int ListArtifacts(Session* session, const ListOptions& options) {
  const auto list = [&](JobClient* client) -> absl::StatusOr<std::vector<v1::Artifact>> {
    std::string job;
    if (!options.job.empty()) {
      AMPD_ASSIGN_OR_RETURN(job, FindJobId(client, options.job));
    }
    auto artifacts = client->ListArtifacts(job);
    if (artifacts.ok() && artifacts->empty() && !job.empty()) {
      AMPD_RETURN_IF_ERROR(client->GetJob(job).status());  // so that a mistyped id gives an error, not an empty list
    }
    return artifacts;
  };
  return CallAndShow(session, list, [&](const std::vector<v1::Artifact>& artifacts) {
    PrintArtifacts(*session, InOrder(artifacts, options.sort), options.job);
  });
}

}  // namespace

Command ListArtifactsCommand() {
  const auto options = std::make_shared<ListOptions>();
  return {.name = "list",
          .alias = "ls",
          .help = "List the files on the server, newest first: uploaded ones, and those that jobs have made",
          .examples = "  ampctl artifact list --job ID\n  ampctl artifact list --sort size,desc",
          .formats = ListFormats(),
          .arguments = {{.name = "--job",
                         .value = &options->job,
                         .text = "JOB",
                         .help = "List only the files that this job has made (its id or name, or at least the first 5 "
                                 "characters of its id)",
                         .suggest = SuggestJobIds},
                        SortOption(&options->sort, NamesOf(ArtifactSortFields()))},
          .run = [options](Session* session) { return ListArtifacts(session, *options); }};
}

}  // namespace ampd::client
