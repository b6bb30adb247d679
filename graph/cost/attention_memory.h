#pragma once

#include <cstdint>

namespace ampd::graph {

// The sizes, in elements, of an attention that LibTorch computes with all scores in memory at once, in fp32. LibTorch
// computes attention in this way on a CPU if there is dropout, or if its flash kernel does not support the shapes or
// the mask.
struct AttentionSizes {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  int64_t scores = 0;      // (B, heads, T, S)
  bool drops = false;      // The attention has dropout.
  bool is_narrow = false;  // The inputs have 16 bits and are cast to fp32.
};

// Bytes saved for the backward pass: query, key and value in the memory order that the products need, and the softmax.
// If there is dropout, also the dropout mask, and the softmax multiplied by this mask. Measured against LibTorch 2.11.
int64_t AttentionSavedBytes(const AttentionSizes& sizes);

// Additional bytes needed while the attention runs (Forward), and while its backward pass runs (Backward).
int64_t AttentionForwardBytes(const AttentionSizes& sizes);
int64_t AttentionBackwardBytes(const AttentionSizes& sizes);

}  // namespace ampd::graph
