#pragma once

#include <cstdint>

#include "worker/kernels/fp8_math.h"

// The FP8 part of libampd_cuda.so's plain interface (cuda_kernels.h): matrices brought into FP8, each in one read but
// for those whose scale follows from all of their numbers. A product sums over the columns of both its operands, so the
// same read writes the transposed matrix too where the product of another direction will want that one.
//
// Codes and scales equal those of worker/amp/fp8/fp8_tensor.h's ops bit for bit, whatever the order of threads.
namespace ampd::kernels {

// In FP8; where `data` is null it is not asked for, and nothing of it is written.
struct CudaFp8Output {
  uint8_t* data = nullptr;
  float* inverse_scale = nullptr;
};

// A matrix (R, C) and what is wanted of it. All pointers are to device memory.
struct CudaFp8Matrix {
  const void* source = nullptr;  // row-major
  Format source_format = Format::kFloat32;
  int64_t rows = 0;
  int64_t columns = 0;
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Scaling scaling;
  CudaFp8Output plain;       // (R, C)
  CudaFp8Output transposed;  // (C, R)
};

// Every function is as those of CudaKernels are: no allocation, no waiting, 0 or a cudaError_t. Numbers that share a
// scale with one that is not finite stand for NaN, all of them.
struct CudaFp8Kernels {
  // One scale for all numbers, and one inverse for both outputs: *known_scale, or what follows from the largest
  // magnitude where that is null or not above 0. *amax becomes that magnitude; REQUIRES: it is 0 before. Three
  // launches; a known scale saves the first read.
  int (*quantize_tensor)(const CudaFp8Matrix* matrix, const float* known_scale, float* amax, void* stream);

  // A scale for each 128 numbers of a row of the output, the last of a row perhaps for fewer. inverse_scale: (R, C /
  // 128) and (C, R / 128), rounded up, column by column as LibTorch's product wants it. One launch.
  int (*quantize_rows)(const CudaFp8Matrix* matrix, void* stream);

  // A scale for each square of 128x128 numbers, at the edges perhaps for fewer. inverse_scale: (R / 128, C / 128) and
  // its transposed, rounded up, row by row. One launch.
  int (*quantize_squares)(const CudaFp8Matrix* matrix, void* stream);
};

// The library's own, for its table (cuda_kernels.h).
extern const CudaFp8Kernels kFp8Kernels;

}  // namespace ampd::kernels
