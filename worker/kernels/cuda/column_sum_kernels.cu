#include "worker/kernels/cuda/column_sum_kernels.h"
#include "worker/kernels/cuda/last_block.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"

// A thread block sums a tile, up to kColumnSumTile adjacent columns, over a slice of the rows. Each thread sums one
// pack of 8 columns. The threads that together cover one row of the tile are a team; a block has as many teams as
// fit. If there are several slices, the last block of a tile adds up the sums of all slices. Which rows a thread sums
// depends on the shape only, and every sum has a fixed order.
namespace ampd::kernels {
namespace {

constexpr int kTilePacks = static_cast<int>(kColumnSumTile) / kPack;
constexpr int kTurn = 4;  // The rows that a thread loads at once.

static_assert(kThreads % kTilePacks == 0 && kTilePacks * kPack <= kThreads);

// For each tile of the running launch: how many of its blocks have ended. All counts are 0 between launches. If a
// matrix has more tiles than there are counts, each tile has only one slice and needs no count.
__device__ unsigned num_ended[kColumnSumBlocks];

// How the threads of a block are divided into teams. A team adds one row of a tile after the other to its sums, one sum
// per column.
struct ColumnTeams {
  int threads = 1;  // Threads per team; a power of 2.
  int num = 1;      // Teams per block.
};

ColumnTeams TeamsFor(int64_t columns) {
  ColumnTeams teams;
  while (teams.threads < kTilePacks && int64_t{teams.threads} * kPack < columns) {
    teams.threads *= 2;
  }
  teams.num = kThreads / teams.threads;
  return teams;
}

// Adds up what the teams of this block have summed, in the order of the teams. Stores the sums of the columns of this
// tile, which begins at column `first`: the sum of the matrix's column c becomes element `at` + c of `result`. Every
// thread of the block must call this function.
__device__ void StoreTile(const Pack& own, const ColumnTeams& teams, int64_t first, int64_t columns, Format format,
                          void* result, int64_t at) {
  constexpr int kStride = kThreads + 4;  // The threads of a warp read from different banks.
  __shared__ float of_threads[kPack * kStride];
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    of_threads[k * kStride + thread] = own.values[k];
  }
  __syncthreads();
  if (thread >= teams.threads * kPack || first + thread >= columns) {
    return;
  }
  Pack total = {};
  for (int team = 0; team < teams.num; ++team) {
    total.values[0] += of_threads[thread % kPack * kStride + team * teams.threads + thread / kPack];
  }
  Store(total, format, result, at + first + thread, /*wide=*/false, /*num=*/1);
}

// Adds up the sums of all slices, for the columns of one tile. Each of a column's threads adds up a share of the
// slices. Every thread of the block must call this function.
__device__ void SumSlices(const CudaColumnSum& pass, const ColumnTeams& teams, int64_t first, int64_t slices) {
  __shared__ float of_shares[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int width = teams.threads * kPack;
  const int shares = kThreads / width;
  const int64_t column = first + thread % width;
  float sum = 0;
  if (column < pass.columns) {
#pragma unroll 16
    for (int64_t slice = thread / width; slice < slices; slice += shares) {
      sum += pass.partials[slice * pass.columns + column];
    }
  }
  of_shares[thread] = sum;
  __syncthreads();
  if (thread < width && column < pass.columns) {
    Pack total = {};
    for (int share = 0; share < shares; ++share) {
      total.values[0] += of_shares[share * width + thread];
    }
    Store(total, pass.format, pass.sums, column, /*wide=*/false, /*num=*/1);
  }
}

// Sums the columns of one tile over one slice of the rows. Team t of slice s begins with row s * teams.num + t, and
// continues in steps of slices * teams.num rows. kWide: rows are read in whole packs, from aligned addresses.
template <Format kFormat, bool kWide>
__global__ void __launch_bounds__(kThreads)
    SumTiles(CudaColumnSum pass, ColumnTeams teams, int64_t num_tiles, int64_t slices) {
  const int64_t tile = static_cast<int64_t>(blockIdx.x) % num_tiles;
  const int64_t slice = static_cast<int64_t>(blockIdx.x) / num_tiles;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = tile * teams.threads * kPack;
  const int64_t column = first + int64_t{thread % teams.threads} * kPack;
  const int64_t left = pass.columns - column;
  const int num = left < 0 ? 0 : left < kPack ? static_cast<int>(left) : kPack;
  const int64_t step = slices * teams.num;
  Pack sum = {};
  if (num > 0) {
    for (int64_t row = slice * teams.num + thread / teams.threads; row < pass.rows; row += kTurn * step) {
      Pack packs[kTurn];
#pragma unroll
      for (int turn = 0; turn < kTurn; ++turn) {
        // Beyond the last row, a thread loads `row` again and drops the result. So the loads need no branch.
        const int64_t at = row + turn * step;
        packs[turn] = Load(kFormat, pass.matrix, (at < pass.rows ? at : row) * pass.columns + column, kWide, num);
      }
#pragma unroll
      for (int turn = 0; turn < kTurn; ++turn) {
        const bool is_there = row + turn * step < pass.rows;
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          sum.values[k] += is_there ? packs[turn].values[k] : 0.0f;
        }
      }
    }
  }
  if (slices == 1) {
    StoreTile(sum, teams, first, pass.columns, kFormat, pass.sums, 0);
  } else {
    StoreTile(sum, teams, first, pass.columns, Format::kFloat32, pass.partials, slice * pass.columns);
    if (IsLastBlock(&num_ended[tile], static_cast<unsigned>(slices))) {
      SumSlices(pass, teams, first, slices);
    }
  }
}

template <Format kFormat>
int LaunchTiles(const CudaColumnSum& pass, void* stream) {
  const int64_t slices = ColumnSumSlices(pass.rows, pass.columns);
  const ColumnTeams teams = TeamsFor(pass.columns);
  const int64_t tile = int64_t{teams.threads} * kPack;
  const int64_t num_tiles = (pass.columns + tile - 1) / tile;
  const bool is_wide = pass.columns % kPack == 0 && reinterpret_cast<uintptr_t>(pass.matrix) % 16 == 0;
  return Launch(is_wide ? SumTiles<kFormat, true> : SumTiles<kFormat, false>, num_tiles * slices, stream, pass, teams,
                num_tiles, slices);
}

int SumColumns(const CudaColumnSum* pass, void* stream) {
  switch (pass->format) {
    case Format::kFloat32:
      return LaunchTiles<Format::kFloat32>(*pass, stream);
    case Format::kBFloat16:
      return LaunchTiles<Format::kBFloat16>(*pass, stream);
    case Format::kFloat16:
      return LaunchTiles<Format::kFloat16>(*pass, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

const CudaColumnSumKernels kColumnSumKernels = {.sum_columns = SumColumns};

}  // namespace ampd::kernels
