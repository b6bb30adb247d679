#pragma once

#include <cstddef>
#include <cstdint>

// Causal or full attention of one head in bf16, forward and backward, for CPUs that can multiply bf16 numbers. Sums
// of products and exponentials are fp32. So results are rounded no more often than those of LibTorch's flash kernel,
// even on CPUs where that kernel multiplies in fp32 (those not made by Intel). The backward pass computes the
// probabilities again. Every head is computed separately in a fixed order, so the bits do not depend on the number of
// threads.
namespace ampd::kernels {

struct AttentionShape {
  int64_t length = 0;  // T, the number of queries and of keys.
  int64_t width = 0;   // D
  float scale = 1;     // Multiplies the scores.
  bool is_causal = false;
};

// Rows of numbers; row starts are `stride` numbers apart.
template <typename Number>
struct Rows {
  Number* data = nullptr;
  int64_t stride = 0;
};

// A matrix (T, D) of one head, such as its queries, in bf16.
using ConstHead = Rows<const uint16_t>;
using Head = Rows<uint16_t>;

struct AttentionInputs {
  ConstHead query, key, value;
};

// What the backward pass reads besides the inputs: the results of the forward pass, and the gradient of `result`.
struct AttentionResults {
  ConstHead result;
  const float* log_sums = nullptr;
  ConstHead gradient;
};

struct AttentionGradients {
  Head query, key, value;
};

// The functions that compute attention. They are thread-safe. `scratch` is 64-byte aligned memory that only this call
// uses.
struct AttentionKernels {
  const char* name;
  int64_t width_multiple;  // Supported widths are multiples of this.

  size_t (*forward_scratch_bytes)(const AttentionShape& shape);
  size_t (*backward_scratch_bytes)(const AttentionShape& shape);

  // result = softmax(scale * query key^T) value; log_sums[t] is the logarithm of the sum of row t's exponentials.
  void (*forward)(const AttentionShape& shape, const AttentionInputs& inputs, Head result, float* log_sums,
                  void* scratch);
  void (*backward)(const AttentionShape& shape, const AttentionInputs& inputs, const AttentionResults& results,
                   const AttentionGradients& gradients, void* scratch);
};

// Returns the kernels for this machine, or null if the machine can't multiply bf16 numbers.
const AttentionKernels* BestAttention();

}  // namespace ampd::kernels
