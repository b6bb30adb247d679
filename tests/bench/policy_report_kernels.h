#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "c10/core/Device.h"

// Measures where the time of a training step goes.
namespace ampd::bench {

// Runs `work` under LibTorch's profiler (Kineto). Returns a list of {"name", "count", "milliseconds"}, the longest
// total time first, of at most 60 names. On a GPU these are its kernels and copies. On a CPU they are LibTorch's ops,
// and the time of an op includes that of the ops that it calls. Throws LibTorch's errors. REQUIRES: when `work`
// returns, the device has finished what it began.
nlohmann::ordered_json TimeByKernel(c10::Device device, const std::function<void()>& work);

}  // namespace ampd::bench
