#pragma once

#include <cstdint>

#include "worker/kernels/cpu/formats.h"

// The part of libampd_cuda.so's plain interface (cuda_kernels.h) that sums the columns of a matrix.
namespace ampd::kernels {

// A row-major matrix (N, C), the sums of its columns (C), and scratch for the partial sums. All pointers are to device
// memory, aligned to their elements; the kernels are fastest if the matrix is aligned to 16 bytes and C is a multiple
// of 8.
struct CudaColumnSum {
  const void* matrix = nullptr;
  Format format = Format::kFloat32;  // Format of the matrix and the sums.
  int64_t rows = 0;                  // N
  int64_t columns = 0;               // C
  void* sums = nullptr;
  float* partials = nullptr;  // ColumnSumPartials(N, C) numbers; may be null if this is 0.
};

// kColumnSumTile: the largest number of columns that a thread block sums at a time. kColumnSumBlocks: about how many
// blocks sum a large matrix.
inline constexpr int64_t kColumnSumTile = 256;
inline constexpr int64_t kColumnSumBlocks = 264;

// The number of parts into which the rows are divided.
constexpr int64_t ColumnSumSlices(int64_t rows, int64_t columns) {
  constexpr int64_t kLeastElements = int64_t{64} * kColumnSumTile;  // Minimum for a block.
  const int64_t tiles = (columns + kColumnSumTile - 1) / kColumnSumTile;
  const int64_t tile = columns < kColumnSumTile ? columns : kColumnSumTile;
  const int64_t most = tiles == 0 ? 1 : (kColumnSumBlocks + tiles - 1) / tiles;
  const int64_t wanted = rows * tile / kLeastElements;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

// The size of the scratch: one sum for each slice and column, or nothing if one slice has all rows.
constexpr int64_t ColumnSumPartials(int64_t rows, int64_t columns) {
  const int64_t slices = ColumnSumSlices(rows, columns);
  return slices == 1 ? 0 : slices * columns;
}

// The function follows the rules of CudaKernels: it allocates nothing, does not wait, is deterministic, and returns 0
// or a cudaError_t.
struct CudaColumnSumKernels {
  // Sets sums[c] to the sum over r of matrix[r][c], computed in fp32 and rounded once, or to 0 if there are no rows.
  // One launch, which reads the matrix once. Two launches on one device must not run at the same time.
  int (*sum_columns)(const CudaColumnSum* pass, void* stream);
};

// The library's kernels for column sums. The main table (cuda_kernels.h) points to them.
extern const CudaColumnSumKernels kColumnSumKernels;

}  // namespace ampd::kernels
