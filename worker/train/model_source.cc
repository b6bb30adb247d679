#include "worker/train/model_source.h"

#include "base/status_macros.h"
#include "worker/train/checkpoint_store.h"

namespace ampd::train {

absl::StatusOr<std::optional<ImportedModel>> FindImportedModel(const internal::StartAttempt& start, Locator locate) {
  if (!start.spec().model().has_exported()) {
    return std::nullopt;
  }
  const v1::ExportedModelSpec& spec = start.spec().model().exported();
  if (start.has_start_from()) {
    CheckpointIo io;
    return RestoreImportedModel(spec, CheckpointStore(start.checkpoint_root(), io), start.start_from().path(),
                                start.start_from().manifest_sha256());
  }
  AMPD_ASSIGN_OR_RETURN(const data::DataFile file, locate("model.exported.path", spec.path()));
  return OpenImportedModel(spec, file);
}

}  // namespace ampd::train
