#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "worker/amp/step/step_kernels.h"

// What the device's memory and multipliers can do at most, and how near the optimizer step comes.
namespace ampd::bench {

// One line per ceiling: a copy of memory, and products of square matrices per format. `tiny`: sizes for a CPU. A
// product that the device refuses has an "error". Throws LibTorch's errors of the copy.
std::vector<nlohmann::ordered_json> MeasureCeilings(const amp::ComputeDevice& device, bool tiny);

// The AdamW update of bf16 weights beside a copy of memory. Throws LibTorch's errors.
nlohmann::ordered_json MeasureOptimizer(const amp::ComputeDevice& device, bool tiny);

}  // namespace ampd::bench
