#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/arguments.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/artifact/find_artifact.h"
#include "client/commands/output_file.h"
#include "client/commands/stdout_content.h"
#include "client/commands/suggestions.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct DownloadOptions {
  std::string name;
  std::string file;  // file to write; empty: the file name that the artifact has
  bool replace = false;
};

// Returns the name of the local file: only the last part of the artifact's file name, so that whoever uploaded the
// artifact can't choose another folder. INVALID_ARGUMENT for a hidden file, such as .bashrc, and for a name that
// programs would take for an option.
absl::StatusOr<std::string> LocalNameOf(const Session& session, const v1::Artifact& artifact) {
  const std::string name = std::filesystem::path(artifact.file_name()).filename().string();
  if (name.empty() || name == "." || name == "..") {
    return artifact.sha256();
  }
  if (name.front() == '.' || name.front() == '-') {
    return absl::InvalidArgumentError(
        absl::StrCat("the artifact's own file name, ", name, ", begins with a ", name.front() == '.' ? "dot" : "dash",
                     ", so it is not used; name the file to write: ", session.Command("artifact download NAME FILE")));
  }
  return name;
}

int DownloadArtifact(Session* session, const DownloadOptions& options) {
  const bool to_stdout = options.file == "-";
  if (const absl::Status allowed = to_stdout ? CheckContentToStdout(*session) : absl::OkStatus(); !allowed.ok()) {
    return session->Fail(allowed);
  }
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto client = session->Client();
  const auto artifact = client.ok() ? FindArtifact(*client, options.name) : client.status();
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  if (to_stdout) {
    const absl::Status printed = PrintContents(session, *client, {*artifact}, cancellation);
    return printed.ok() ? kExitOk : session->Fail(printed);
  }
  const auto path = options.file.empty() ? LocalNameOf(*session, *artifact) : absl::StatusOr<std::string>(options.file);
  if (!path.ok()) {
    return session->Fail(path.status());
  }
  if (const absl::Status allowed = CheckOutputFile(*path, options.replace); !allowed.ok()) {
    return session->Fail(allowed);
  }
  ProgressLine line(*session);
  const absl::Status done =
      DownloadFile(*client, *artifact, *path, options.replace, OptionsWithBar(&line, absl::Seconds(10), cancellation));
  line.Clear();
  if (!done.ok()) {
    return session->Fail(AsOutputError(done));
  }
  const PlainFields fields = {
      {"file", *path}, {"name", artifact->name()}, {"sizeBytes", static_cast<int64_t>(artifact->size_bytes())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: %s\n", Printable(*path).c_str(), FormatBytes(artifact->size_bytes()).c_str());
  }
  return kExitOk;
}

}  // namespace

Command DownloadArtifactCommand() {
  const auto options = std::make_shared<DownloadOptions>();
  return {.name = "download",
          .help = "Download a file from the server",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {ArtifactName(&options->name),
                        {.name = "file",
                         .value = &options->file,
                         .text = "[FILE]",
                         .help = "File to write on this machine, - for stdout (default: the file's own name)",
                         .suggest = SuggestFiles,
                         .is_path = true},
                        Force(&options->replace)},
          .run = [options](Session* session) { return DownloadArtifact(session, *options); }};
}

}  // namespace ampd::client
