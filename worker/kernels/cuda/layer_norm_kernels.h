#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

// The layer norms of libampd_cuda.so's plain interface (cuda_kernels.h): forward and backward, with the addition in
// front of the norm and the change of format behind it. All tensors are row-major and in device memory. Every number is
// computed in fp32 and rounded once, to nearest even.
namespace ampd::kernels {

// A tensor that a kernel reads. `data` is null if the tensor is absent.
struct LayerNormOperand {
  const void* data = nullptr;
  Format format = Format::kFloat32;
};

// A tensor that a kernel writes. `data` is null if the tensor is not requested.
struct LayerNormResult {
  void* data = nullptr;
  Format format = Format::kFloat32;
};

// For each row r of R rows of C numbers:
//
//   sum = x + y, rounded to its format; or x, if y is absent
//   mean = mean of sum;  inverse_deviation = 1 / sqrt(mean of (sum - mean)^2 + epsilon)
//   result = (sum - mean) * inverse_deviation * weight + bias
//
// If a row has a number that is not finite, its whole result is NaN.
struct CudaLayerNorm {
  int64_t rows = 0;
  int64_t columns = 0;  // At least 1.
  float epsilon = 0;
  LayerNormOperand x;                  // (R, C)
  LayerNormOperand y;                  // (R, C) or absent
  LayerNormOperand weight;             // (C); absent: 1
  LayerNormOperand bias;               // (C); absent: 0
  LayerNormResult sum;                 // (R, C). Requested exactly if y is there.
  LayerNormResult result;              // (R, C)
  float* mean = nullptr;               // (R)
  float* inverse_deviation = nullptr;  // (R)
  // A number to raise to the largest magnitude of the result after rounding, with the bits that the FP8 kernels find
  // (amax.h). REQUIRES: it is 0 before. Null: not requested.
  float* amax = nullptr;
};

// The backward pass of the norm of a sum x + y. `gradient` is the gradient of the norm's result; `sum_gradient` is the
// gradient that the sum has from the other nodes that use it.
//
//   normalised = (sum - mean) * inverse_deviation
//   x_gradient = y_gradient = sum_gradient + inverse_deviation *
//       (gradient * weight - mean of (gradient * weight) - normalised * mean of (gradient * weight * normalised))
//   weight_gradient = sum over the rows of gradient * normalised
//   bias_gradient = sum over the rows of gradient
struct CudaLayerNormBackward {
  int64_t rows = 0;
  int64_t columns = 0;
  LayerNormOperand gradient;                 // (R, C)
  LayerNormOperand sum;                      // (R, C), what the forward pass normalised.
  LayerNormOperand weight;                   // (C); absent: 1
  LayerNormOperand sum_gradient;             // (R, C); absent: 0
  const float* mean = nullptr;               // (R)
  const float* inverse_deviation = nullptr;  // (R)
  LayerNormResult x_gradient;                // (R, C)
  LayerNormResult y_gradient;                // (R, C)
  LayerNormResult weight_gradient;           // (C)
  LayerNormResult bias_gradient;             // (C)
  // Scratch of kLayerNormPartials * 2 * C floats, which need not be zeroed. May be null if neither the gradient of the
  // weight nor that of the bias is requested.
  float* partials = nullptr;
};

// The largest number of partial sums from which a backward pass computes the gradient of the weight or bias.
inline constexpr int64_t kLayerNormPartials = 264;

// Every function follows the rules of CudaKernels: it allocates nothing, does not wait, is deterministic, and returns 0
// or a cudaError_t. Rows of up to 4096 numbers are read once, and longer ones several times. Accesses are 16 bytes wide
// where a tensor's address is a multiple of 16 and C is a multiple of 8.
struct CudaLayerNormKernels {
  // One launch.
  int (*forward)(const CudaLayerNorm* norm, void* stream);
  // One launch. The order of the sums over rows depends on R and C only. Two launches on one device that request the
  // gradient of the weight or of the bias must not run at the same time.
  int (*backward)(const CudaLayerNormBackward* norm, void* stream);
};

// The library's kernels for layer norms. The main table (cuda_kernels.h) points to them.
extern const CudaLayerNormKernels kLayerNormKernels;

}  // namespace ampd::kernels
