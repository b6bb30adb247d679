#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/amp/phase.h"

// The networks of policy_report, with random batches for them.
namespace ampd::bench {

// Sizes of a report's batches. `tiny` networks and batches are for a CPU, to see that everything runs.
struct NetworkOptions {
  int num_batches = 50;
  int64_t batch_size = 0;  // 0: the network's own.
  bool tiny = false;
};

// A network and batches of one shape on the CPU.
struct Network {
  graph::Graph model;
  std::vector<amp::Batch> batches;
};

// Names of all networks: first the small ones of every kind of model, then gpt2-124m and resnet50 (its stem for small
// images), which have the initial weights and first batch of scripts/gpu_peers.py.
std::vector<std::string_view> NetworkNames();

// NOT_FOUND if there is no such network. Seeds LibTorch's default generator for the batches.
absl::StatusOr<Network> MakeNetwork(std::string_view name, const NetworkOptions& options);

}  // namespace ampd::bench
