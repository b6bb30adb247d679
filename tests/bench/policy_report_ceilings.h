#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "worker/amp/step/step_kernels.h"

// Measures the highest rates that the device's memory and its matrix products reach, and how near the optimizer step
// comes to the rate of the memory.
namespace ampd::bench {

// Returns one report line per measured maximum: one for a copy of memory, and one for a product of square matrices in
// each format. If `tiny`, the sizes are small enough for a CPU. The line of a product that the device refuses has an
// "error". Throws LibTorch's errors of the copy.
std::vector<nlohmann::ordered_json> MeasureCeilings(const amp::ComputeDevice& device, bool tiny);

// Measures the AdamW update of bf16 weights, and a copy of memory to compare it with. Returns one report line. Throws
// LibTorch's errors.
nlohmann::ordered_json MeasureOptimizer(const amp::ComputeDevice& device, bool tiny);

}  // namespace ampd::bench
