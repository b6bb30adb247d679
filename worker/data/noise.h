#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"

namespace ampd::data {

// What a generator makes its images of: (B, shape...) standard normal numbers in fp32, one row for each of the samples
// that a batch has in an epoch. A row depends on (seed, epoch, sample) alone, as what is drawn of a sample's
// augmentation does, so that a run that goes on at the same place in the data draws the same. A sample that a padded
// last batch has again has the same row again beside the same image: it weighs more, as among the images, and nothing
// else depends on rows being distinct. `shape`: of a row.
at::Tensor NoiseOf(uint64_t seed, int64_t epoch, const std::vector<int64_t>& samples,
                   const std::vector<int64_t>& shape);

// Such rows that are the same in every epoch, of a stream that no sample has: what a generator is looked at with.
at::Tensor FixedNoiseOf(uint64_t seed, int64_t num_rows, int64_t num_numbers);

}  // namespace ampd::data
