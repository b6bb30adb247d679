#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/amp/phase.h"
#include "worker/executor/executor.h"

// The networks that policy_report trains, with random batches for them.
namespace ampd::bench {

// Sizes of a report's batches. If `tiny`, networks and batches are so small that a CPU can run the whole program.
struct NetworkOptions {
  int num_batches = 50;
  int64_t batch_size = 0;  // 0: the network's own batch size.
  bool tiny = false;
};

// A network with batches for it, which are on the CPU and have the same shape. An imported network also has its
// evaluation program, and its parameters and buffers by name.
struct Network {
  graph::Graph model;
  std::vector<amp::Batch> batches;
  std::optional<graph::Graph> eval = {};
  executor::TensorMap state = {};
};

// Returns the names of all networks: first a small one of every kind of model, then gpt2-124m and resnet50 (with the
// stem for small images). The last two have the same initial weights and first batch as in tools/gpu/gpu_peers.py.
std::vector<std::string_view> NetworkNames();

// Makes the network `name` and its batches. Returns NOT_FOUND if there is no network of this name. Seeds LibTorch's
// default generator, which draws the batches.
absl::StatusOr<Network> MakeNetwork(std::string_view name, const NetworkOptions& options);

}  // namespace ampd::bench
