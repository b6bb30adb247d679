#include "client/commands/job/local_model.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/output_file.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

constexpr char kModelPath[] = "model.exported.path";
constexpr char kOtherArchive[] =
    "is a ZIP archive, but torch.export did not write it; use ampd.export or torch.export.save, not torch.save";

bool IsLocal(const std::string& path) {
  return absl::StartsWith(path, "./") || absl::StartsWith(path, "../") || absl::StartsWith(path, "/");
}

// Returns an error if torch.export did not write the file. Looks only at its first and last MiB, so that large models
// take no longer; the server reads the rest.
absl::Status CheckIsExported(const std::string& path) {
  constexpr absl::string_view kStartOfZip = "PK\x03\x04";
  constexpr absl::string_view kMark = "archive_format";  // the name of a file that torch.export puts into each archive
  constexpr std::streamoff kLooksAt = 1 << 20;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return absl::OkStatus();  // ReadLocalFile reports the error.
  }
  std::ifstream file(path, std::ios::binary);
  std::string content(kLooksAt, '\0');
  file.read(content.data(), kLooksAt);
  content.resize(static_cast<size_t>(file.gcount()));
  const auto refuse = [&path](const std::string& why) {
    return InvalidFields({{kModelPath, absl::StrCat(path, " ", why, "; nothing was uploaded")}});
  };
  if (!absl::StartsWith(content, kStartOfZip)) {
    return refuse("is not a .pt2 file (torch.export writes a ZIP archive)");
  }
  if (file.eof() || absl::StrContains(content, kMark)) {
    return absl::StrContains(content, kMark) ? absl::OkStatus() : refuse(kOtherArchive);
  }
  std::string end(kLooksAt, '\0');
  file.seekg(-kLooksAt, std::ios::end);
  file.read(end.data(), kLooksAt);
  return absl::StrContains(end, kMark) ? absl::OkStatus() : refuse(kOtherArchive);
}

}  // namespace

absl::StatusOr<LocalModel> UploadLocalModel(Session* session, const std::string& job_file, bool dry_run,
                                            absl::Duration retry_for, v1::JobSpec* spec) {
  v1::ExportedModelSpec* const exported =
      spec->model().has_exported() ? spec->mutable_model()->mutable_exported() : nullptr;
  if (exported == nullptr || !exported->artifact().empty() || !IsLocal(exported->path())) {
    return LocalModel();
  }
  const fs::path folder = job_file == "-" ? fs::path() : fs::path(job_file).parent_path();
  const std::string path = (folder / exported->path()).lexically_normal().string();
  Cancellation* const cancellation = session->CancelledByInterrupt();
  const absl::Status readable = CheckInputFile(path);
  if (readable.ok()) {
    AMPD_RETURN_IF_ERROR(CheckIsExported(path));
  }
  auto read = readable.ok() ? ReadLocalFile(path, *cancellation) : readable;
  if (absl::IsInvalidArgument(read.status())) {
    return InvalidFields({{kModelPath, std::string(read.status().message())}});
  }
  AMPD_ASSIGN_OR_RETURN(const LocalFile file, std::move(read));
  AMPD_ASSIGN_OR_RETURN(JobClient* const client, session->Client());
  LocalModel model = {file.sha256, true};
  if (dry_run) {
    const auto found = FindUploaded(client, file.sha256);
    if (!found.ok() && !absl::IsNotFound(found.status())) {
      return found.status();
    }
    model.is_uploaded = found.ok();
  } else {
    AMPD_RETURN_IF_ERROR(UploadWithBar(session, client, file, retry_for, cancellation).status());
  }
  if (model.is_uploaded) {
    ShowAsUploaded(model, spec);
  } else {
    session->Note(absl::StrCat("the model file ", Printable(file.path), " (", FormatBytes(file.size_bytes),
                               ") is not on the server; ampctl job submit uploads it when it runs without --dry-run"));
    exported->set_path("upload/" + file.sha256);
  }
  return model;
}

void ShowAsUploaded(const LocalModel& model, v1::JobSpec* spec) {
  if (!model.sha256.empty()) {
    spec->mutable_model()->mutable_exported()->clear_path();
    spec->mutable_model()->mutable_exported()->set_artifact(model.sha256);
  }
}

}  // namespace ampd::client
