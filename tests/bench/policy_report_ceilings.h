#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "worker/amp/step/step_kernels.h"

// Measures the highest speeds of the device's memory and of its matrix products, and how close the optimizer step comes
// to the memory's highest speed.
namespace ampd::bench {

// Returns one report line for a copy of memory, and one line per format for a product of square matrices. If the device
// can't compute a product, its line has an "error" instead of a speed. If `tiny`, the sizes are small enough for a CPU.
// Throws LibTorch's error if the copy fails.
std::vector<nlohmann::ordered_json> MeasureCeilings(const amp::ComputeDevice& device, bool tiny);

// Measures the AdamW update of bf16 weights, and a copy of memory for comparison. Returns one report line. Throws
// LibTorch's errors.
nlohmann::ordered_json MeasureOptimizer(const amp::ComputeDevice& device, bool tiny);

}  // namespace ampd::bench
