#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/train/array_source.h"
#include "worker/train/imported_model.h"

namespace ampd::train {

// The model that an attempt brings with it: of its checkpoint where it goes on from one, or else of the file that the
// spec names. Nothing for a model of the zoo. Errors as OpenImportedModel and RestoreImportedModel.
absl::StatusOr<std::optional<ImportedModel>> FindImportedModel(const internal::StartAttempt& start, Locator locate);

}  // namespace ampd::train
