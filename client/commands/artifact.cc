// Runs ampctl artifact.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/call.h"
#include "client/commands/commands.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"
#include "client/terminal/confirm.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

// A sample's name begins with its job's id, an upload's name is its digest.
absl::StatusOr<v1::Artifact> FindArtifact(JobClient* client, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    return FindUploaded(client, name);
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<v1::Artifact> artifacts, client->ListArtifacts(name.substr(0, slash)));
  for (const v1::Artifact& artifact : artifacts) {
    if (artifact.name() == name) {
      return artifact;
    }
  }
  return ErrorWithMetadata(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND",
                           absl::StrCat("there is no artifact \"", name, "\""), {{"artifact", name}});
}

// Keeps only the last part of the name, so that a server can't choose another folder.
std::string LocalNameOf(const v1::Artifact& artifact) {
  const std::string name = std::filesystem::path(artifact.file_name()).filename().string();
  return name.empty() || name == "." || name == ".." ? artifact.sha256() : name;
}

// `done` describes the result for people.
void Report(const Session& session, const v1::Artifact& artifact, const std::string& done) {
  if (session.options().quiet || session.options().output == OutputFormat::kName) {
    std::printf("%s\n", Printable(artifact.name()).c_str());
  } else if (!PrintStructured(session, artifact)) {
    std::printf("%s  %s\n", Printable(artifact.name()).c_str(), done.c_str());
  }
}

// Writes nothing but the content to stdout.
int PrintContent(Session* session, JobClient* client, const v1::Artifact& artifact, Cancellation* cancellation) {
  ProgressLine line(*session);
  const absl::Status done = StreamFile(
      client, artifact, [](const std::string& piece) { return WriteAll(STDOUT_FILENO, piece); },
      OptionsWithBar(&line, absl::Seconds(10), cancellation));
  line.Clear();
  return done.ok() ? kExitOk : session->Fail(done);
}

}  // namespace

int ListArtifacts(Session* session, const std::string& job) {
  const auto list = [&](JobClient* client) -> absl::StatusOr<std::vector<v1::Artifact>> {
    auto artifacts = client->ListArtifacts(job);
    if (artifacts.ok() && artifacts->empty() && !job.empty()) {
      AMPD_RETURN_IF_ERROR(client->GetJob(job).status());  // an empty list may come from a mistyped id
    }
    return artifacts;
  };
  return CallAndShow(session, list,
                     [&](const std::vector<v1::Artifact>& artifacts) { PrintArtifacts(*session, artifacts, job); });
}

int UploadArtifact(Session* session, const std::string& path) {
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto client = session->Client();
  const auto file = client.ok() ? ReadLocalFile(path, *cancellation) : client.status();
  if (!file.ok()) {
    return session->Fail(file.status());
  }
  const auto artifact = UploadWithBar(session, *client, *file, absl::Seconds(10), cancellation);
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  Report(*session, *artifact, absl::StrCat("uploaded, ", FormatBytes(artifact->size_bytes())));
  return kExitOk;
}

int DownloadArtifact(Session* session, const ArtifactOptions& options) {
  if (options.file == "-" && session->options().output != OutputFormat::kTable) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("-o ", FormatName(session->options().output),
                     " describes the file that was written; with \"-\" stdout has the content and nothing else")));
  }
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto client = session->Client();
  const auto artifact = client.ok() ? FindArtifact(*client, options.name) : client.status();
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  if (options.file == "-") {
    return PrintContent(session, *client, *artifact, cancellation);
  }
  const std::string path = options.file.empty() ? LocalNameOf(*artifact) : options.file;
  ProgressLine line(*session);
  const absl::Status done =
      DownloadFile(*client, *artifact, path, options.replace, OptionsWithBar(&line, absl::Seconds(10), cancellation));
  line.Clear();
  if (!done.ok()) {
    return session->Fail(done);
  }
  const PlainFields fields = {
      {"file", path}, {"name", artifact->name()}, {"sizeBytes", absl::StrCat(artifact->size_bytes())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::printf("%s: %s\n", Printable(path).c_str(), FormatBytes(artifact->size_bytes()).c_str());
  }
  return kExitOk;
}

int DeleteArtifact(Session* session, const std::string& name, bool confirmed) {
  const auto client = session->Client();
  const auto artifact = client.ok() ? FindArtifact(*client, name) : client.status();
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  if (!confirmed && !CanAsk()) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("deleting needs --yes when nobody can be asked: ampctl artifact delete --yes ", name)));
  }
  if (!confirmed && !Confirm(absl::StrCat("delete artifact ", Printable(name), "?"))) {
    session->Note("nothing was deleted");
    return kExitFailure;
  }
  if (const absl::Status deleted = (*client)->DeleteArtifact(name); !deleted.ok()) {
    return session->Fail(deleted);
  }
  Report(*session, *artifact, "deleted");
  return kExitOk;
}

}  // namespace ampd::client
