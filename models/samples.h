#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

// Programs for jobs that train a generative model: they generate the samples (texts or images) that such a job stores
// while it trains. Also limits on the samples' sizes.
namespace ampd::models {

// The maximum size in bytes of a sample's file.
inline constexpr int64_t kMaxSampleBytes = int64_t{1} << 20;
inline constexpr int32_t kMaxSampleTokens = 4096;
inline constexpr int32_t kMaxSampleRows = 16;
// The vocabulary size of a model whose tokens are bytes.
inline constexpr int64_t kByteVocabulary = 256;
// The gap in pixels between neighbouring pictures in a sample of images.
inline constexpr int64_t kSampleGap = 2;

// Builds the part of a job's model that generates samples. Its parameters and buffers have the same names as in the
// whole model. For gpt2 it is the whole model for sequences of the job's length, "input_ids" (B, T) to "logits" (B, T,
// vocabulary). For dcgan it is the generator, "noise" (B, Z) to "images" (B, C, S, S) between -1 and 1. Returns the
// errors of BuildModel, and INVALID_ARGUMENT (field "sample") for any other model.
absl::StatusOr<graph::Graph> BuildGenerator(const v1::JobSpec& spec);

// The side in pixels of a square of `rows` by `rows` pictures, each with sides of `image_size` pixels.
constexpr int64_t SampleSide(int64_t rows, int64_t image_size) { return rows * image_size + (rows - 1) * kSampleGap; }

// The largest number of rows, at most kMaxSampleRows, whose pictures always fit into a PNG file of kMaxSampleBytes,
// even if they are noise, which does not compress. REQUIRES: a size and a number of channels that BuildDcgan accepts.
int32_t MaxSampleRows(int64_t image_size, int64_t channels);

}  // namespace ampd::models
