#include "client/commands/job/local_model.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/commands/transfer.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

bool IsLocal(const std::string& path) {
  return absl::StartsWith(path, "./") || absl::StartsWith(path, "../") || absl::StartsWith(path, "/");
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
  Cancellation* const cancellation = session->CancelledByInterrupt();
  AMPD_ASSIGN_OR_RETURN(const LocalFile file,
                        ReadLocalFile((folder / exported->path()).lexically_normal().string(), *cancellation));
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
