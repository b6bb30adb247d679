#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

// The batch-norm part of libampd_cuda.so's plain interface (cuda_kernels.h). It computes a batch norm in training mode
// together with the addition of a second tensor and the ReLU that may follow it, forward and backward.
//
// The input is a row-major matrix (R, C), with one row per pixel and one column per channel. This is how images (B, C,
// H, W) lie in channels-last memory; R is B * H * W. All pointers are to device memory. 16-byte accesses are used if C
// is a multiple of 8 and all pointers, except that to the mask, are multiples of 16; otherwise elements are accessed
// one by one.
//
// If there are a ReLU and a residual, the forward pass stores where ReLU passes the gradient: where its output is above
// 0 or NaN. This mask is a row-major matrix of bytes (R, BatchNormMaskColumns(C)) with one bit for each element. Bit k
// of the byte (r, p) belongs to row r and channel 8 * p + k. Bits beyond the last channel are 0.
namespace ampd::kernels {

// What the forward and the backward pass share. Vectors have C numbers.
struct CudaBatchNorm {
  Format format = Format::kFloat32;  // Format of the tensors (R, C).
  int64_t rows = 0;
  int64_t channels = 0;
  const void* input = nullptr;    // (R, C)
  const float* weight = nullptr;  // Null: all 1.
  const float* bias = nullptr;    // Null: all 0.
  bool relu = false;
  bool adds_residual = false;
  float* mean = nullptr;         // Mean of each channel. The forward pass writes it, the backward pass reads it.
  float* inverse_std = nullptr;  // 1 / sqrt(biased variance + epsilon). Written and read like `mean`.
  float* scratch = nullptr;      // BatchNormScratch() numbers, which need not be initialised.
};

struct CudaBatchNormForward {
  CudaBatchNorm norm;
  double epsilon = 0;
  double momentum = 0;
  float* running_mean = nullptr;      // Null: not updated.
  float* running_variance = nullptr;  // Null: not updated.
  const void* residual = nullptr;     // (R, C), set if norm.adds_residual.
  void* output = nullptr;             // (R, C)
  uint8_t* relu_mask = nullptr;       // Written, and needed, if there are a ReLU and a residual.
};

struct CudaBatchNormBackward {
  CudaBatchNorm norm;
  const void* gradient = nullptr;         // (R, C), the gradient of the output.
  const void* second_gradient = nullptr;  // (R, C), added to `gradient`. Null, unless there are a ReLU and a residual.
  const uint8_t* relu_mask = nullptr;     // Mask that the forward pass wrote. Read if there are a ReLU and a residual.
  void* residual_gradient = nullptr;      // (R, C). Written, and needed, if there are a ReLU and a residual.
  void* input_gradient = nullptr;         // (R, C); null: not requested.
  float* weight_gradient = nullptr;       // Null: not requested.
  float* bias_gradient = nullptr;         // Null: not requested.
};

// How the matrix is divided among thread blocks. A block has `lanes` neighbouring threads along the channels, with 8
// channels each, and works on one slice of the rows. The division depends only on the shape, so that every device adds
// up in the same order.
struct BatchNormSplit {
  int64_t lanes = 1;   // A power of two, at most 8.
  int64_t across = 1;  // Number of blocks along the channels.
  int64_t slices = 1;
  int64_t slice_rows = 0;  // If slices are consecutive rows: their number; the last slice may have fewer.
  bool wide = false;       // 16-byte accesses are allowed.
};

inline constexpr int64_t kBatchNormPack = 8;
inline constexpr int64_t kBatchNormThreads = 256;
// The number of blocks that sum: as many as an H100 runs at once. With more blocks there would only be more partial
// sums.
inline constexpr int64_t kBatchNormSumBlocks = 528;

// The number of columns of ReLU's mask.
constexpr int64_t BatchNormMaskColumns(int64_t channels) { return (channels + kBatchNormPack - 1) / kBatchNormPack; }

// Divides the matrix into slices so that there are about `num_blocks` blocks, but every thread has at least a few rows.
inline BatchNormSplit SplitBatchNorm(int64_t rows, int64_t channels, int64_t num_blocks) {
  constexpr int64_t kFewestRows = 4;
  BatchNormSplit split;
  const int64_t packs = (channels + kBatchNormPack - 1) / kBatchNormPack;
  while (split.lanes < kBatchNormPack && split.lanes < packs) {
    split.lanes *= 2;
  }
  split.across = (packs + split.lanes - 1) / split.lanes;
  const int64_t rows_at_once = kBatchNormThreads / split.lanes;
  const int64_t most_slices = (rows + rows_at_once * kFewestRows - 1) / (rows_at_once * kFewestRows);
  const int64_t wanted = num_blocks / split.across < 1 ? 1 : num_blocks / split.across;
  const int64_t slices = wanted < most_slices ? wanted : most_slices;
  split.slice_rows = (rows + slices - 1) / slices;
  split.slices = (rows + split.slice_rows - 1) / split.slice_rows;
  return split;
}

// The number of floats that a pass needs as scratch: two for each channel of each slice, and two more for each
// channel.
inline int64_t BatchNormScratch(int64_t rows, int64_t channels) {
  return 2 * channels * (SplitBatchNorm(rows, channels, kBatchNormSumBlocks).slices + 1);
}

// Every function follows the rules of CudaKernels: it allocates nothing, does not wait, is deterministic, and returns 0
// or a cudaError_t. It launches three kernels. REQUIRES: at least one row and one channel. NaN and infinite numbers
// spread as in PyTorch.
struct CudaBatchNormKernels {
  // output = relu(round((input - mean) * inverse_std * weight + bias) + residual), where `round` rounds to the format.
  // Reads the input twice: once for mean and variance, once for the output. Updates the running statistics as PyTorch
  // does, with the unbiased variance.
  int (*forward)(const CudaBatchNormForward* pass, void* stream);

  // Sets the requested gradients. The gradient of the output is `gradient` or, if there is a `second_gradient`, the
  // sum of both, rounded to the format. ReLU blocks the gradient where the output is 0 or less. With a residual,
  // `relu_mask` shows where that is; without one, the output is computed again from the input. Reads gradient and
  // input twice. With ReLU and residual, the second pass reads `residual_gradient` in place of the gradients.
  int (*backward)(const CudaBatchNormBackward* pass, void* stream);
};

// The library's kernels for batch norms. The main table (cuda_kernels.h) points to them.
extern const CudaBatchNormKernels kBatchNormKernels;

}  // namespace ampd::kernels
