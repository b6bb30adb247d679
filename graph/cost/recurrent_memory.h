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

// Bytes of all positions that are saved for the backward pass on a CPU, besides the result and the parameters. For an
// LSTM: the input and oneDNN's workspace (gates, states and space for their gradients, as in its reference
// implementation). For a GRU, which LibTorch computes op by op: what each op saves. Measured against LibTorch 2.11.
int64_t RecurrentSavedBytes(const RecurrentSizes& sizes);

// Additional bytes that the backward pass needs while it runs. For a GRU: the gradients of all gates twice, as one
// tensor per position and as one tensor of all positions.
int64_t RecurrentBackwardBytes(const RecurrentSizes& sizes);

}  // namespace ampd::graph
