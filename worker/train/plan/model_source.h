#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/train/plan/array_source.h"
#include "worker/train/plan/imported_model.h"

// Finds an attempt's model and its first weights.
namespace ampd::train {

// Whether the attempt resumes training from start.start_from(); if not, it trains from the beginning. In an attempt
// that does not resume, start_from may still be set: it is then the checkpoint that model.initial_checkpoint names,
// and only its weights are used.
bool ResumesTraining(const internal::StartAttempt& start);

// The checkpoints of earlier attempts to which this attempt may roll back, newest first. Empty if the attempt does not
// resume training.
std::vector<v1::Checkpoint> EarlierCheckpoints(const internal::StartAttempt& start);

// Returns the imported model of an attempt: from the checkpoint if the attempt resumes from one, otherwise from the
// file that the spec names. nullopt for a built-in model. Returns the errors of OpenImportedModel and
// RestoreImportedModel.
absl::StatusOr<std::optional<ImportedModel>> FindImportedModel(const internal::StartAttempt& start, Locator locate);

// Returns the content of the safetensors file with the model's first weights, from model.initial_weights or
// model.initial_checkpoint. Returns an empty string if the spec names neither, or if the attempt resumes. Errors have
// the reason DATA_ERROR or CHECKPOINT_ERROR.
absl::StatusOr<std::string> ReadInitialWeights(const internal::StartAttempt& start, Locator locate);

// The name, for messages, of what ReadInitialWeights reads. REQUIRES: the spec has model.initial_weights or
// model.initial_checkpoint.
std::string NameOfInitialWeights(const v1::ModelSpec& model);

}  // namespace ampd::train
