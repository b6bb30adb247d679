#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/api/artifact_transfer.h"
#include "client/commands/artifact/artifact.h"
#include "client/commands/artifact/find_artifact.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

// Whether the file begins as a ZIP archive, which each file of torch.export is.
bool BeginsAsZip(const std::string& path) {
  constexpr std::string_view kMark = "PK\x03\x04";
  std::string begin(kMark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kMark;
}

int UploadArtifact(Session* session, const std::string& path) {
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const auto client = session->Client();
  const absl::Status readable = client.ok() ? CheckInputFile(path) : client.status();
  const auto file = readable.ok() ? ReadLocalFile(path, *cancellation) : readable;
  if (!file.ok()) {
    return session->Fail(file.status());
  }
  const auto artifact = UploadWithBar(session, *client, *file, absl::Seconds(10), cancellation);
  if (!artifact.ok()) {
    return session->Fail(artifact.status());
  }
  if (!BeginsAsZip(path)) {
    session->Note(
        absl::StrCat("note: ", Printable(path),
                     " is not a torch.export file (.pt2), so no job can train it; data belongs in a data root of a "
                     "worker (docs/data.md); to remove the upload: ",
                     session->Command("artifact delete "), Printable(artifact->name())));
  }
  ReportArtifact(*session, *artifact, absl::StrCat("uploaded, ", FormatBytes(artifact->size_bytes())));
  return kExitOk;
}

}  // namespace

Command UploadArtifactCommand() {
  const auto path = std::make_shared<std::string>();
  return {
      .name = "upload",
      .help =
          "Upload an exported model (.pt2), and print the NAME with which job files refer to it. Data is not uploaded: "
          "jobs read it from the data roots of workers",
      .examples =
          "  ampctl artifact upload clothes.pt2\n"
          "  ampctl job submit -f job.yaml --set model.exported.artifact=NAME",
      .formats = AllFormatsBut({OutputFormat::kWide}),
      .arguments = {{.name = "file",
                     .value = path.get(),
                     .text = "FILE",
                     .help = "File on this machine; bytes that the server already has are not sent again",
                     .required = true,
                     .suggest = SuggestFiles,
                     .is_path = true}},
      .run = [path](Session* session) { return UploadArtifact(session, *path); }};
}

}  // namespace ampd::client
