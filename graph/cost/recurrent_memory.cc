#include "graph/cost/recurrent_memory.h"

#include <algorithm>

namespace ampd::graph {
namespace {

constexpr int64_t kFp32Bytes = 4;

// Bytes of oneDNN's workspace for one direction of one layer.
int64_t OneDnnWorkspace(const RecurrentSizes& sizes, int64_t in_features) {
  const int64_t widest = std::max(in_features, sizes.hidden);
  // There is one more state than positions: the initial one.
  const int64_t num_states = sizes.length + 1;
  const int64_t gates = 4 * sizes.hidden * sizes.length * sizes.item_bytes;
  const int64_t states = (2 * widest + 3 * sizes.hidden) * num_states * sizes.item_bytes;
  const int64_t gradients = (8 * widest + 5 * sizes.hidden) * num_states * kFp32Bytes / 2;
  return sizes.batch * (gates + states + gradients);
}

// The bytes that one direction of one layer saves.
int64_t LayerBytes(const RecurrentSizes& sizes, int64_t in_features) {
  const int64_t positions = sizes.batch * sizes.length;
  const int64_t input = positions * in_features * sizes.item_bytes;
  return input +
         (sizes.is_lstm ? OneDnnWorkspace(sizes, in_features) : 7 * positions * sizes.hidden * sizes.item_bytes);
}

}  // namespace

int64_t RecurrentSavedBytes(const RecurrentSizes& sizes) {
  const int64_t deeper = LayerBytes(sizes, sizes.num_directions * sizes.hidden);
  return sizes.num_directions * (LayerBytes(sizes, sizes.in_features) + (sizes.num_layers - 1) * deeper);
}

int64_t RecurrentBackwardBytes(const RecurrentSizes& sizes) {
  return sizes.is_lstm ? 0 : 6 * sizes.batch * sizes.length * sizes.hidden * sizes.item_bytes;
}

}  // namespace ampd::graph
