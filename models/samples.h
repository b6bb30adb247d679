#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"

// What draws the samples of a job that trains a generative model, and how large they may be.
namespace ampd::models {

// Of a sample's file.
inline constexpr int64_t kMaxSampleBytes = int64_t{1} << 20;
inline constexpr int32_t kMaxSampleTokens = 4096;
inline constexpr int32_t kMaxSampleRows = 16;
// Bytes, where a token is one.
inline constexpr int64_t kByteVocabulary = 256;
// Pixels between two pictures of a square of them.
inline constexpr int64_t kSampleGap = 2;

// The model's part that draws its samples, with parameters and buffers of the model's by their names: of gpt2 the model
// over sequences of the job's length, "input_ids" (B, T) to "logits" (B, T, vocabulary); of dcgan the generator,
// "noise" (B, Z) to "images" (B, C, S, S) between -1 and 1. INVALID_ARGUMENT as BuildModel, and (field "sample") for a
// model that makes nothing.
absl::StatusOr<graph::Graph> BuildGenerator(const v1::JobSpec& spec);

// Pixels of a side of the square with `rows` rows and columns of pictures whose side has `image_size`.
constexpr int64_t SampleSide(int64_t rows, int64_t image_size) { return rows * image_size + (rows - 1) * kSampleGap; }

// The most rows of which any pictures make a PNG file of at most kMaxSampleBytes, kMaxSampleRows at most: also noise,
// which does not become smaller. REQUIRES: a size and channels of BuildDcgan's.
int32_t MaxSampleRows(int64_t image_size, int64_t channels);

}  // namespace ampd::models
