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
#include "worker/train/health/precision_raise.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::train {

// What a GAN's generator makes its images of, for each sample of a batch.
struct NoiseOptions {
  std::optional<std::vector<int64_t>> shape;  // of a sample's; nothing: the model takes none
  uint64_t seed = 0;
};

// Everything that an attempt will do, taken from the spec with its defaults filled in. Nothing has been computed yet,
// but the data is read.
struct AttemptPlan {
  graph::Graph model;
  std::optional<ImportedModel> imported;  // nothing: the model is of the zoo
  precision::ResolvedPolicy policy;
  PrecisionRaise raise;  // that the policy has
  amp::EngineOptions engine;
  std::optional<amp::PlateauConfig> plateau;
  data::Dataset train;
  std::optional<data::Dataset> eval;
  std::vector<std::string> data_notes;  // how data was read whose format its content told
  data::Sampler::Options sampler;
  data::Augmentation augmentation;  // of training samples
  NoiseOptions noise;
  std::optional<int64_t> ignored_label;  // that the model's own loss leaves out
  std::optional<v1::SampleSpec> sample;  // drawn by `engine.generator`
  int64_t eval_batch_size = 0;
  int64_t num_micro_batches = 1;
  int64_t total_steps = 0;
  int64_t eval_every_steps = 0;
  int64_t checkpoint_every_steps = 0;
  bool keep_best = false;  // a checkpoint follows every evaluation with the least loss so far
  int num_threads = 1;
  v1::JobSpec::OnDivergence on_divergence = v1::JobSpec::FAIL;
  int64_t lower_again_after_steps = 0;
  bool replay_skipped = false;
  int steps_ahead = 0;          // that may be begun before the numbers of another are read
  std::string initial_weights;  // a file's content, also a checkpoint's; empty: none
  std::string spec_digest;      // SHA-256 of what determines the numerics

  // 0: only at the end, or never.
  int64_t sample_every_steps() const { return sample.has_value() ? sample->every_steps() : 0; }
};

// Errors have the reason SPEC_ERROR (the spec can't be run, by its own fault), DATA_ERROR, or CHECKPOINT_ERROR where
// the model is a checkpoint's. REQUIRES: LibTorch's number of threads does not matter yet.
absl::StatusOr<AttemptPlan> PlanAttempt(const internal::StartAttempt& start);

// The policy of `plan.model` as the spec, the placement and a raise have it. SPEC_ERROR when it can't be run.
absl::StatusOr<precision::ResolvedPolicy> ResolvePrecision(const internal::StartAttempt& start,
                                                           const graph::Graph& model, const PrecisionRaise& raise);

}  // namespace ampd::train
