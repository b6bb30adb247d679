#pragma once

#include <cstdint>

#include "worker/kernels/fp8_math.h"

// The FP8 part of libampd_cuda.so's plain interface (cuda_kernels.h). It quantizes matrices to FP8, each in one read,
// except if the scale follows from all numbers. A product sums over the columns of both its operands, so the same read
// also writes the transposed matrix if a product in the other direction will need it.
//
// Codes and scales equal those of the ops in worker/amp/fp8/fp8_tensor.h bit for bit, whatever the order of threads.
namespace ampd::kernels {

// An output in FP8. If `data` is null, the output is not requested, and neither `data` nor `inverse_scale` is written.
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

// Every function follows the rules of CudaKernels: no allocation, no waiting, 0 or a cudaError_t. If one number is not
// finite, all numbers that share its scale stand for NaN.
struct CudaFp8Kernels {
  // One scale for all numbers, and one inverse for both outputs: *known_scale, or, if that is null or not above 0, the
  // scale that follows from the largest magnitude. *amax is set to that magnitude. REQUIRES: *amax is 0 before. Three
  // launches; with a known scale, the matrix is read only once.
  int (*quantize_tensor)(const CudaFp8Matrix* matrix, const float* known_scale, float* amax, void* stream);

  // One scale per 128 numbers of an output row; the last block of a row may be shorter. inverse_scale: (R, C / 128) and
  // (C, R / 128), rounded up, column-major as LibTorch's product requires. One launch.
  int (*quantize_rows)(const CudaFp8Matrix* matrix, void* stream);

  // One scale per square of 128x128 numbers; squares at the edges may be smaller. inverse_scale: (R / 128, C / 128) and
  // its transpose, rounded up, row-major. One launch.
  int (*quantize_squares)(const CudaFp8Matrix* matrix, void* stream);
};

// The library's table of FP8 functions, for its main table (cuda_kernels.h).
extern const CudaFp8Kernels kFp8Kernels;

}  // namespace ampd::kernels
