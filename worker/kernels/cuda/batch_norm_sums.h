#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/kernels/cuda/batch_norm_kernels.h"
#include "worker/kernels/cuda/batch_norm_rows.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"

// How the kernels of batch norms sum over the rows: they combine the sums of a block's threads, store the sums of each
// slice, and add up the sums of all slices in kernels of their own. Only for the sources of libampd_cuda.so.
namespace ampd::kernels::batch_norm {

inline constexpr int kFinalChannels = 8;  // Channels of a block that adds up slices.
inline constexpr int kFinalLanes = kThreads / kFinalChannels;

// Two sums for each channel of a thread.
struct Sums {
  Pack a, b;
};

struct Cell {
  float a, b;
};

// Combines the sums of all threads of a block that share channels, in a tree. The first `lanes` threads get the result.
// merge(mine, other, kept, added) adds `other`, the sums of another thread for one channel, to `mine`. `kept` is the
// number of rows that `mine` covers, and `added` the number of rows that `other` covers.
template <typename Merge>
__device__ void MergeOverBlock(const BatchNormSplit& split, float num_rows, Sums& sums, Merge merge) {
  __shared__ Cell cells[kPack][kThreads];
  __shared__ float counts[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    cells[k][thread] = {sums.a.values[k], sums.b.values[k]};
  }
  counts[thread] = num_rows;
  const int lanes = static_cast<int>(split.lanes);
  for (int half = kThreads / lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread / lanes < half) {
      const int other = thread + half * lanes;
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        merge(cells[k][thread], cells[k][other], counts[thread], counts[other]);
      }
      counts[thread] += counts[other];
    }
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    sums.a.values[k] = cells[k][thread].a;
    sums.b.values[k] = cells[k][thread].b;
  }
}

// SumsOfSlice returns a pointer to a slice's sums in the scratch memory: two rows of C numbers. CoefficientsIn returns
// a pointer to two more rows, which follow the sums of the last slice.
__device__ inline float* SumsOfSlice(const CudaBatchNorm& norm, int64_t slice) {
  return norm.scratch + 2 * slice * norm.channels;
}
__device__ inline float* CoefficientsIn(const CudaBatchNorm& norm, const BatchNormSplit& split) {
  return SumsOfSlice(norm, split.slices);
}

__device__ inline void StoreSums(const CudaBatchNorm& norm, const BatchNormSplit& split, const Place& place,
                                 const Sums& sums) {
  if (threadIdx.x < split.lanes && place.num > 0) {
    float* const of_slice = SumsOfSlice(norm, static_cast<int64_t>(blockIdx.x) / split.across);
    StoreFloats(sums.a, of_slice + place.channel, place.wide, place.num);
    StoreFloats(sums.b, of_slice + norm.channels + place.channel, place.wide, place.num);
  }
}

// In a kernel that adds up slices: adds up the sums of a block's threads that share a channel. The thread of each
// channel whose lane (FinalLane) is 0 gets the result.
struct FinalSums {
  double a, b, c;
};
__device__ inline FinalSums SumOverLanes(const FinalSums& sums) {
  __shared__ FinalSums of_threads[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  of_threads[thread] = sums;
  for (int half = kFinalLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread / kFinalChannels < half) {
      const FinalSums& other = of_threads[thread + half * kFinalChannels];
      of_threads[thread].a += other.a;
      of_threads[thread].b += other.b;
      of_threads[thread].c += other.c;
    }
  }
  return of_threads[thread];
}

// In a kernel that adds up slices: FinalChannel is the channel of the calling thread, and FinalLane is the thread's
// index among the threads of its block that share this channel.
__device__ inline int64_t FinalChannel() {
  return static_cast<int64_t>(blockIdx.x) * kFinalChannels + static_cast<int64_t>(threadIdx.x) % kFinalChannels;
}
__device__ inline int64_t FinalLane() { return static_cast<int64_t>(threadIdx.x) / kFinalChannels; }

// The number of blocks of a kernel that adds up slices.
inline int64_t NumFinalBlocks(const CudaBatchNorm& norm) {
  return (norm.channels + kFinalChannels - 1) / kFinalChannels;
}

}  // namespace ampd::kernels::batch_norm
