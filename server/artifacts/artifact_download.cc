#include "server/artifacts/artifact_download.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;

}  // namespace

ArtifactDownload::Step ArtifactDownload::Next() {
  Step step;
  step.kind = Step::END;
  step.status =
      is_closing_() ? Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down") : Begin();
  if (!step.status.ok() || offset_ == content_.size_bytes) {
    return step;
  }
  step.status = ReadPiece(step.message.mutable_content());
  if (step.status.ok()) {
    offset_ += static_cast<int64_t>(step.message.content().size());
    step.kind = Step::MESSAGE;
  }
  return step;
}

absl::Status ArtifactDownload::Begin() {
  if (content_.file.ok()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(content_, store_->OpenContent(tenants_, request_.name()));
  offset_ = request_.offset_bytes();
  if (offset_ < 0 || offset_ > content_.size_bytes) {
    return InvalidFields(
        {{"offset_bytes", absl::StrCat("is ", offset_, "; must be 0 to the artifact's size, ", content_.size_bytes)}});
  }
  return absl::OkStatus();
}

absl::Status ArtifactDownload::ReadPiece(std::string* piece) {
  piece->resize(static_cast<size_t>(std::min(kPieceBytes, content_.size_bytes - offset_)));
  ssize_t count = 0;
  do {
    count = pread(content_.file.get(), piece->data(), piece->size(), offset_);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return ErrnoError(errno, "read an artifact's file");
  }
  if (count == 0) {
    return Error(absl::StatusCode::kDataLoss, "ARTIFACT_CORRUPT",
                 absl::StrCat("the server has only ", offset_, " of ", content_.size_bytes, " bytes"));
  }
  piece->resize(static_cast<size_t>(count));
  return absl::OkStatus();
}

}  // namespace ampd::server
