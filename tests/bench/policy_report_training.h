#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tests/bench/policy_report_networks.h"
#include "worker/amp/step/step_kernels.h"

// Trains one network under one preset and reports its losses, speed and memory.
namespace ampd::bench {

struct TrainingOptions {
  bool op_by_op = true;           // If the device replays steps, also run them op by op and compare the losses.
  bool nondeterministic = false;  // Also run with algorithms that need not be deterministic.
  bool compare_cpu = false;  // On a GPU: also run the network on the CPU and compare, unless it draws random numbers.
  bool kernels = false;      // Also report the time of each kernel in a few steps.
};

// Trains the network under the preset and returns one line of the report, in the form that policy_report.cc describes.
// The line has "skipped" if the device does not support the preset, and "error" after an error of LibTorch or ampd.
// Throws nothing.
nlohmann::ordered_json ReportPreset(std::string_view network_name, const std::string& preset, const Network& network,
                                    const amp::ComputeDevice& device, const TrainingOptions& options);

struct TurnOptions {
  bool replays = true;            // Replay steps if the device has step graphs.
  bool nondeterministic = false;  // Use algorithms that need not be deterministic.
};

// For each line "N" on stdin, takes N steps on the first batch, and prints the seconds per step, the last loss and the
// peak of allocated bytes. Returns when stdin ends. Throws LibTorch's errors.
absl::Status TakeTurns(const std::string& preset, const Network& network, const amp::ComputeDevice& device,
                       const TurnOptions& options);

}  // namespace ampd::bench
