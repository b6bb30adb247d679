#pragma once

#include <cstdint>
#include <vector>

#include "worker/amp/phase.h"
#include "worker/data/dataset.h"

namespace ampd::train {

// Splits a batch of shape (B, ...) into `num_parts` equal parts, as views. REQUIRES: B is a multiple of `num_parts`.
std::vector<amp::Batch> MicroBatchesOf(const data::Dataset::Samples& samples, int64_t num_parts);

}  // namespace ampd::train
