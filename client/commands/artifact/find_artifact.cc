#include "client/commands/artifact/find_artifact.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {

Argument ArtifactName(std::string* name) {
  return {.name = "name",
          .value = name,
          .text = "NAME",
          .help =
              "Name of the file on the server, as in ampctl artifact list. The part after the last / is enough if no "
              "other file has it",
          .required = true,
          .suggest = SuggestArtifacts};
}

namespace {

constexpr size_t kDigestBytes = 64;

absl::Status NoArtifact(const std::string& name) {
  return ErrorWithMetadata(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND",
                           absl::StrCat("there is no artifact \"", name, "\""), {{"artifact", name}});
}

// Returns the artifact whose name ends in "/" and `word`. Usually `word` is the name of a file that a job has written.
absl::StatusOr<v1::Artifact> FindByLastPart(JobClient* client, const std::string& word) {
  AMPD_ASSIGN_OR_RETURN(std::vector<v1::Artifact> artifacts, client->ListArtifacts(""));
  std::erase_if(artifacts, [&word](const v1::Artifact& one) { return !one.name().ends_with("/" + word); });
  if (artifacts.empty()) {
    return NoArtifact(word);
  }
  if (artifacts.size() == 1) {
    return artifacts.front();
  }
  std::string names;
  for (const v1::Artifact& artifact : artifacts) {
    absl::StrAppend(&names, artifact.name(), "\n");
  }
  return ErrorWithMetadata(absl::StatusCode::kInvalidArgument, "ARTIFACT_AMBIGUOUS",
                           absl::StrCat("the names of ", artifacts.size(), " files end in \"/", word,
                                        "\"; repeat the command with a whole name"),
                           {{kCandidates, names}});
}

}  // namespace

// An artifact has one of two forms of names. The name of a file that a job wrote begins with the job's id and a slash;
// the name of an upload is its digest.
absl::StatusOr<v1::Artifact> FindArtifact(JobClient* client, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    return name.size() == kDigestBytes ? FindUploaded(client, name) : FindByLastPart(client, name);
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Artifact> artifacts, client->ListArtifacts(name.substr(0, slash)));
  for (const v1::Artifact& artifact : artifacts) {
    if (artifact.name() == name) {
      return artifact;
    }
  }
  return NoArtifact(name);
}

void ReportArtifact(const Session& session, const v1::Artifact& artifact, const std::string& done) {
  if (session.names_only()) {
    WriteFormatted("%s\n", Printable(artifact.name()).c_str());
  } else if (!PrintStructured(session, artifact)) {
    WriteFormatted("%s  %s\n", Printable(artifact.name()).c_str(), done.c_str());
  }
}

}  // namespace ampd::client
