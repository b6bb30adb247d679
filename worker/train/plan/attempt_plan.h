#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "graph/graph.h"
#include "precision/policy.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"
#include "worker/data/augmentation.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/train/health/early_stopping.h"
#include "worker/train/health/precision_raise.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::train {

// The noise from which a GAN's generator makes its images.
struct NoiseOptions {
  std::optional<std::vector<int64_t>> shape;  // Shape per sample; nullopt: the model takes no noise.
  uint64_t seed = 0;
};

// Everything that an attempt will do, derived from the spec with its defaults filled in. The data is read, but nothing
// is computed yet.
struct AttemptPlan {
  graph::Graph model;
  std::optional<ImportedModel> imported;  // nullopt: a built-in model.
  precision::ResolvedPolicy policy;
  PrecisionRaise raise;  // The raise that `policy` already includes.
  amp::EngineOptions engine;
  std::optional<amp::PlateauConfig> plateau;
  std::optional<EarlyStoppingConfig> early_stopping;  // nullopt: the job never stops early.
  data::Dataset train;                                // In a job that predicts, the samples to predict.
  std::optional<data::Dataset> eval;
  std::vector<std::string> data_notes;  // Formats of data files that were detected, for users.
  data::Sampler::Options sampler;
  data::Augmentation augmentation;  // Applies to training samples only.
  NoiseOptions noise;
  std::optional<int64_t> ignored_label;  // Label that the model's own loss leaves out of its mean.
  bool has_label_count = false;          // The model outputs the number of labels of its own loss.
  std::optional<v1::SampleSpec> sample;  // What `engine.generator` draws.
  int64_t eval_batch_size = 0;           // Also the batch size of a job that predicts.
  int64_t num_micro_batches = 1;
  int64_t total_steps = 0;
  int64_t eval_every_steps = 0;
  int64_t checkpoint_every_steps = 0;
  bool keep_best = false;  // Make a checkpoint after every evaluation with the lowest loss so far.
  int num_threads = 1;
  v1::JobSpec::OnDivergence on_divergence = v1::JobSpec::FAIL;
  int64_t lower_again_after_steps = 0;
  bool replay_skipped = false;
  int steps_ahead = 0;          // Steps that may begin before an earlier step's results are read.
  std::string initial_weights;  // Content of a file or checkpoint with weights; empty: none.
  std::string spec_digest;      // SHA-256 of everything that determines the numerics.

  // Steps between samples; 0: samples are drawn only at the end, or never.
  int64_t sample_every_steps() const { return sample.has_value() ? sample->every_steps() : 0; }
};

// Makes the plan of an attempt that trains. Reads the data. Errors have the reason SPEC_ERROR (the spec itself can't be
// run), DATA_ERROR, or CHECKPOINT_ERROR if the model comes from a checkpoint. TrainingLoop sets LibTorch's number of
// threads from the plan; the values that the plan contains do not depend on that number.
absl::StatusOr<AttemptPlan> PlanAttempt(const internal::StartAttempt& start);

// Makes the plan of an attempt that predicts. The plan has no optimizer, schedule or evaluation, and each step is one
// batch. Errors have the reasons of PlanAttempt; SPEC_ERROR also if the model predicts nothing
// (graph::WithPredictions). REQUIRES: the spec has `predict`.
absl::StatusOr<AttemptPlan> PlanPrediction(const internal::StartAttempt& start);

// Resolves the precision policy for `model` from the spec, the device of the attempt, and the precision raise.
// SPEC_ERROR if the device can't run the policy.
absl::StatusOr<precision::ResolvedPolicy> ResolvePrecision(const internal::StartAttempt& start,
                                                           const graph::Graph& model, const PrecisionRaise& raise);

}  // namespace ampd::train
