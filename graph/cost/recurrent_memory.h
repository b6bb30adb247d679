#pragma once

#include <cstdint>

namespace ampd::graph {

// The sizes of one op that runs recurrent layers over a batch.
struct RecurrentSizes {
  bool is_lstm = false;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t in_features = 0;  // Input features of the first layer.
  int64_t hidden = 0;
  int64_t num_layers = 1;
  int64_t num_directions = 1;
  int64_t item_bytes = 0;  // Bytes of a number in the dtype that the layers compute in.
};

// Bytes that recurrent layers save for the backward pass on a CPU, over all positions, besides the result and the
// parameters. An LSTM saves the input and oneDNN's workspace (gates, states and space for their gradients, as in
// oneDNN's reference implementation). LibTorch computes a GRU op by op, and each op saves its own tensors. Measured
// against LibTorch 2.11.
int64_t RecurrentSavedBytes(const RecurrentSizes& sizes);

// Additional bytes that the backward pass needs while it runs. A GRU needs the gradients of all gates twice: as one
// tensor per position, and as one tensor of all positions.
int64_t RecurrentBackwardBytes(const RecurrentSizes& sizes);

}  // namespace ampd::graph
