#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/arguments.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/artifact/find_artifact.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct DownloadOptions {
  std::string name;
  std::string file;  // file to write; empty: the file name that the artifact has
  bool replace = false;
};

// Returns the name of the local file. It is only the last part of the artifact's file name, so that a server can't
// choose another folder.
std::string LocalNameOf(const v1::Artifact& artifact) {
  const std::string name = std::filesystem::path(artifact.file_name()).filename().string();
  return name.empty() || name == "." || name == ".." ? artifact.sha256() : name;
}

// Writes the content to stdout, and nothing else.
int PrintContent(Session* session, JobClient* client, const v1::Artifact& artifact, Cancellation* cancellation) {
  ProgressLine line(*session);
  const absl::Status done = StreamFile(
      client, artifact, [](const std::string& piece) { return WriteAll(STDOUT_FILENO, piece); },
      OptionsWithBar(&line, absl::Seconds(10), cancellation));
  line.Clear();
  return done.ok() ? kExitOk : session->Fail(done);
}

int DownloadArtifact(Session* session, const DownloadOptions& options) {
  if (options.file == "-" && session->options().output != OutputFormat::kTable) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("-o ", FormatName(session->options().output),
                     " describes the written file; with \"-\" stdout holds only the content")));
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

}  // namespace

Command DownloadArtifactCommand() {
  const auto options = std::make_shared<DownloadOptions>();
  return {.name = "download",
          .help = "Write an artifact to a file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {ArtifactName(&options->name),
                        {.name = "file",
                         .value = &options->file,
                         .text = "[FILE]",
                         .help = "File to write, - for stdout (default: the name under which it was uploaded)",
                         .check = CheckNotEmpty,
                         .suggest = SuggestFiles},
                        Force(&options->replace)},
          .run = [options](Session* session) { return DownloadArtifact(session, *options); }};
}

}  // namespace ampd::client
