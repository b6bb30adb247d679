#pragma once

#include <cstdint>

namespace ampd::graph {

// Recurrent layers over a batch.
struct RecurrentSizes {
  bool is_lstm = false;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t in_features = 0;  // of the first layer
  int64_t hidden = 0;
  int64_t num_layers = 1;
  int64_t num_directions = 1;
  int64_t item_bytes = 0;  // of the format that they compute in
};

// What they keep of all positions for the backward pass on a CPU, beside their result and their parameters: of an LSTM
// the input and oneDNN's workspace (gates, states and room for their gradients, as its reference implementation lays
// them out), of a GRU, which LibTorch computes op by op, what each of those saves. Measured against LibTorch 2.11.
int64_t RecurrentSavedBytes(const RecurrentSizes& sizes);

// What the backward pass of one of them needs beside that while it runs: of a GRU the gradients of all gates, one a
// position, and once more as one tensor.
int64_t RecurrentBackwardBytes(const RecurrentSizes& sizes);

}  // namespace ampd::graph
