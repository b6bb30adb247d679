#pragma once

#include <cstdint>

#include "worker/kernels/fp8_math.h"

// The FP8 part of libampd_cuda.so's plain interface (cuda_kernels.h). It quantizes matrices to FP8. Each matrix is read
// once, or twice if its only scale follows from an amax (largest magnitude) that has to be found first. A matrix
// product in FP8 multiplies the rows of one operand with the rows of the other, so the transposed matrix may be needed
// too; it is written in the same pass.
//
// Codes and scales equal those of the ops in worker/amp/fp8/fp8_tensor.h bit for bit, whatever the order of threads.
namespace ampd::kernels {

// A matrix in FP8 that a kernel writes. If `data` is null, the matrix is not requested, and neither `data` nor
// `inverse_scale` is written.
struct CudaFp8Output {
  uint8_t* data = nullptr;
  float* inverse_scale = nullptr;
};

// A matrix (R, C) and its requested outputs. All pointers are to device memory.
struct CudaFp8Matrix {
  const void* source = nullptr;  // Row-major.
  Format source_format = Format::kFloat32;
  int64_t rows = 0;
  int64_t columns = 0;
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Scaling scaling;
  CudaFp8Output plain;       // (R, C)
  CudaFp8Output transposed;  // (C, R)
};

// Every function follows the rules of CudaKernels: it allocates nothing, does not wait, and returns 0 or a cudaError_t.
// If one number is not finite, all numbers that share its scale become NaN.
struct CudaFp8Kernels {
  // Quantizes with one scale for all numbers; both outputs get the same inverse scale. The scale is *known_scale. If
  // `known_scale` is null, or the number is not above 0, the scale follows from the largest magnitude instead.
  //
  // If `is_amax_known`, *amax is the largest magnitude, and is only read: two launches, which read the matrix once.
  // Otherwise sets *amax to the largest magnitude. REQUIRES then: *amax is 0 before. Three launches, which read the
  // matrix twice, or once with a known scale.
  int (*quantize_tensor)(const CudaFp8Matrix* matrix, const float* known_scale, float* amax, bool is_amax_known,
                         void* stream);

  // Quantizes with one scale per group of 128 adjacent numbers of an output row; the last group of a row may be
  // shorter. Shapes of inverse_scale, with quotients rounded up: (R, C / 128) for the plain output and (C, R / 128) for
  // the transposed one, column-major as LibTorch's product requires. One launch.
  int (*quantize_rows)(const CudaFp8Matrix* matrix, void* stream);

  // Quantizes with one scale per square of 128x128 numbers; squares at the edges may be smaller. Shape of
  // inverse_scale, with quotients rounded up: (R / 128, C / 128), row-major; transposed for the transposed output. One
  // launch.
  int (*quantize_squares)(const CudaFp8Matrix* matrix, void* stream);
};

// The library's FP8 kernels. The main table (cuda_kernels.h) points to them.
extern const CudaFp8Kernels kFp8Kernels;

}  // namespace ampd::kernels
