#pragma once

#include <cstdint>

namespace ampd::graph {

// Attention that LibTorch computes with all its scores at once, in fp32: on a CPU with dropout, or where its flash
// kernel does not take the shapes or the mask. In elements.
struct AttentionSizes {
  int64_t query = 0;
  int64_t key = 0;
  int64_t value = 0;
  int64_t scores = 0;      // (B, heads, T, S)
  bool drops = false;      // some scores
  bool is_narrow = false;  // what it reads is in 16 bits, and brought to fp32
};

// What it keeps for the backward pass: query, key and value in the order of its products, the softmax, and of dropout
// what it multiplied by and the product. Measured against LibTorch 2.11.
int64_t AttentionSavedBytes(const AttentionSizes& sizes);

// What it needs beside that while it runs, and while its backward pass does.
int64_t AttentionForwardBytes(const AttentionSizes& sizes);
int64_t AttentionBackwardBytes(const AttentionSizes& sizes);

}  // namespace ampd::graph
