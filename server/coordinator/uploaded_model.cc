#include "server/coordinator/uploaded_model.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/coordinator/answer_limits.h"

namespace ampd::server {
namespace {

absl::Status ArtifactNotFound(const std::string& artifact) {
  const std::string shown = Shortened(artifact, kMaxShownBytes);
  return ErrorWithMetadata(
      absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND",
      absl::StrCat("model.exported.artifact: the server has no file ", shown, "; ampctl artifact upload FILE sends it"),
      {{"artifact", shown}});
}

}  // namespace

absl::StatusOr<UploadedModel> ModelFinder::Find(const std::string& tenant, const v1::ModelSpec& spec) const {
  const std::string& artifact = spec.exported().artifact();
  if (artifact.empty()) {
    return UploadedModel();
  }
  absl::StatusOr<std::shared_ptr<void>> hold = absl::NotFoundError("");
  if (options_.hold_artifact) {
    hold = options_.hold_artifact(tenant, artifact);
  }
  if (absl::IsNotFound(hold.status())) {
    return ArtifactNotFound(artifact);
  }
  AMPD_RETURN_IF_ERROR(hold.status());
  UploadedModel model{*std::move(hold), nullptr};
  if (options_.read_model) {
    AMPD_ASSIGN_OR_RETURN(model.exported, options_.read_model(artifact));
  }
  return model;
}

}  // namespace ampd::server
