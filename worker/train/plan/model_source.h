#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/train/plan/array_source.h"
#include "worker/train/plan/imported_model.h"

// Where an attempt's model and its first weights come from.
namespace ampd::train {

// Whether the attempt goes on from the checkpoint that it is given. Where not, it begins; a checkpoint that it is given
// all the same is that of model.initial_checkpoint, of which it takes the weights alone. The server places jobs by the
// same rule (server/state/job_rules.h).
bool GoesOn(const internal::StartAttempt& start);

// The model that an attempt brings with it: of its checkpoint where it goes on from one, or else of the file that the
// spec names. Nothing for a model of the zoo. Errors as OpenImportedModel and RestoreImportedModel.
absl::StatusOr<std::optional<ImportedModel>> FindImportedModel(const internal::StartAttempt& start, Locator locate);

// The safetensors file that the spec has a model begin with, of model.initial_weights or of model.initial_checkpoint.
// Empty where there is none, and for an attempt that goes on. Errors have the reason DATA_ERROR or CHECKPOINT_ERROR.
absl::StatusOr<std::string> ReadInitialWeights(const internal::StartAttempt& start, Locator locate);

// What ReadInitialWeights reads, for people. REQUIRES: the spec has one of the two.
std::string NameOfInitialWeights(const v1::ModelSpec& model);

}  // namespace ampd::train
