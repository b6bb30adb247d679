#pragma once

#include <optional>

#include "graph/dtype.h"

namespace ampd::v1 {
class Device;
}  // namespace ampd::v1

namespace ampd::precision {

// Returns how many floating-point operations per second a GPU computes at most in products of dense matrices, as its
// vendor states: with fp32 sums, without sparsity. `format`: the format of the numbers that are multiplied; `in_tf32`:
// fp32 numbers are rounded to tf32. Returns nothing for a CPU, for a GPU that ampd does not know by name, and for a
// format that the GPU does not multiply.
std::optional<double> PeakFlopsPerSecond(const v1::Device& device, graph::Dtype format, bool in_tf32);

}  // namespace ampd::precision
