#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"

namespace ampd::data {

// The noise from which a generator makes its images: (B, shape...) standard normal numbers in fp32, one row per sample
// of a batch in an epoch. A row depends only on (seed, epoch, sample), so a run that resumes at the same position in
// the data draws the same rows. A sample that is repeated in a padded last batch gets the same row again, and therefore
// has more weight in that batch. `shape`: the shape of a row.
// The noise is written to `reuse` if that has the right shape.
at::Tensor NoiseOf(uint64_t seed, int64_t epoch, const std::vector<int64_t>& samples, const std::vector<int64_t>& shape,
                   const at::Tensor& reuse = {});

// Returns noise rows that are the same in every epoch, for showing what a generator makes. They come from a random
// stream that no sample of the training data uses.
at::Tensor FixedNoiseOf(uint64_t seed, int64_t num_rows, int64_t num_numbers);

}  // namespace ampd::data
