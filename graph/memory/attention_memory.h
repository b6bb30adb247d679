#pragma once

#include <cstdint>

namespace ampd::graph {

// Attention that LibTorch computes with all its scores at once, in fp32: on a CPU with dropout, or if its flash kernel
// does not support the shapes or the mask. Sizes are in elements.
struct AttentionSizes {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  int64_t scores = 0;      // (B, heads, T, S)
  bool drops = false;      // It drops some scores.
  bool is_narrow = false;  // Its inputs have 16 bits and are cast to fp32.
};

// Bytes saved for the backward pass: query, key and value in the order of its products, the softmax, and with dropout
// the mask and the product. Measured against LibTorch 2.11.
int64_t AttentionSavedBytes(const AttentionSizes& sizes);

// Additional bytes needed while it runs, and while its backward pass runs.
int64_t AttentionForwardBytes(const AttentionSizes& sizes);
int64_t AttentionBackwardBytes(const AttentionSizes& sizes);

}  // namespace ampd::graph
