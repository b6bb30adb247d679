#pragma once

#include <cstddef>
#include <cstdint>

// Causal or full attention of one head in bf16, forward and backward, on a CPU that multiplies bf16. Products are
// summed in fp32 and exponentials are fp32, so no more is rounded than by LibTorch's flash kernel, whose products take
// the road over fp32 on a CPU that is not Intel's. Probabilities are computed again in the backward pass. Every head is
// computed alone and in one order, so the bits do not depend on the number of threads.
namespace ampd::kernels {

struct AttentionShape {
  int64_t length = 0;  // T: as many queries as keys
  int64_t width = 0;   // D
  float scale = 1;     // of the scores
  bool is_causal = false;
};

// Rows of numbers, `stride` numbers apart.
template <typename Number>
struct Rows {
  Number* data = nullptr;
  int64_t stride = 0;
};

// One head's (T, D) in bf16.
using ConstHead = Rows<const uint16_t>;
using Head = Rows<uint16_t>;

struct AttentionInputs {
  ConstHead query, key, value;
};

// What the forward pass leaves for the backward one, and the gradient that this one begins with.
struct AttentionResults {
  ConstHead result;
  const float* log_sums = nullptr;
  ConstHead gradient;
};

struct AttentionGradients {
  Head query, key, value;
};

// Thread-safe; scratch is memory of one call alone, 64-byte aligned.
struct AttentionKernels {
  const char* name;
  int64_t width_multiple;  // of the widths that it takes

  size_t (*forward_scratch_bytes)(const AttentionShape& shape);
  size_t (*backward_scratch_bytes)(const AttentionShape& shape);

  // result = softmax(scale * query key^T) value; log_sums[t]: the logarithm of the sum of row t's exponentials.
  void (*forward)(const AttentionShape& shape, const AttentionInputs& inputs, Head result, float* log_sums,
                  void* scratch);
  void (*backward)(const AttentionShape& shape, const AttentionInputs& inputs, const AttentionResults& results,
                   const AttentionGradients& gradients, void* scratch);
};

// Null where the machine has no bf16 products.
const AttentionKernels* BestAttention();

}  // namespace ampd::kernels
