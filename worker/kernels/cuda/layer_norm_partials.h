#pragma once

#include <cstdint>

#include "worker/kernels/cuda/last_block.h"
#include "worker/kernels/cuda/layer_norm_kernels.h"
#include "worker/kernels/cuda/layer_norm_rows.h"
#include "worker/kernels/cuda/packs.h"

// The sums over rows of the backward pass of layer norms: the gradients of weight and bias. Every block has its own
// sums (partials). The blocks form groups. The last block of a group adds up the sums of its blocks, and the last group
// adds up the sums of the groups. Only layer_norm_kernels.cu includes this header.
namespace ampd::kernels::layer_norm {

inline constexpr int64_t kGroupBlocks = 16;  // Maximum number of blocks in a group.
inline constexpr int64_t kMostGroups = (kLayerNormPartials + kGroupBlocks - 1) / kGroupBlocks;

// What a thread adds, for each of its columns, to the gradients of weight and bias.
struct Contribution {
  Pack of_weight = {};
  Pack of_bias = {};
};

// The place in `partials` of a block's sum for the weight (which = 0) or the bias (1).
__device__ inline int64_t PartialsAt(int64_t block, int which, int64_t columns) {
  return (block * 2 + which) * columns;
}

// Adds up the contributions of the block's teams, in their order, and stores the sums as the block's partials. Every
// thread of the block must call it.
__device__ inline void StorePartials(const CudaLayerNormBackward& norm, const Teams& teams, int team, int64_t column,
                                     Contribution own) {
  __shared__ float of_teams[2][kHeldColumns];
  const int num = NumFrom(column, norm.columns);
  for (int t = 0; t < teams.num; ++t) {
    if (t == team) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        own.of_weight.values[k] += t == 0 ? 0.0f : of_teams[0][column + k];
        own.of_bias.values[k] += t == 0 ? 0.0f : of_teams[1][column + k];
        of_teams[0][column + k] = own.of_weight.values[k];
        of_teams[1][column + k] = own.of_bias.values[k];
      }
    }
    __syncthreads();
  }
  if (team == teams.num - 1) {
    const auto block = static_cast<int64_t>(blockIdx.x);
    const LayerNormResult partials = {norm.partials, Format::kFloat32};
    StorePack(own.of_weight, partials, norm.columns, PartialsAt(block, 0, norm.columns) + column, num);
    StorePack(own.of_bias, partials, norm.columns, PartialsAt(block, 1, norm.columns) + column, num);
  }
}

// The blocks of a backward pass, each with its own sums in `partials`, and the threads in each of them.
struct Blocks {
  int64_t num = 1;
  int threads = 1;
};

// Adds up the partials of the blocks `first`, `first` + `step` and so on below `end`, number by number. For each
// number i of a block's partials, one thread calls use(i, sum). `threads`: how many threads share this work.
template <typename Use>
__device__ void AddUpPartials(const CudaLayerNormBackward& norm, int64_t first, int64_t step, int64_t end, int threads,
                              Use use) {
  for (auto i = static_cast<int64_t>(threadIdx.x); i < 2 * norm.columns; i += threads) {
    float sum = 0;
#pragma unroll 16
    for (int64_t block = first; block < end; block += step) {
      sum += norm.partials[PartialsAt(block, 0, norm.columns) + i];
    }
    use(i, sum);
  }
}

// Computes the gradients of weight and bias from the partials of all blocks. Every thread of every block must call this
// function, after it has stored its part of the partials. The sum of a group replaces the partials of its first block.
// `num_ended`: kMostGroups + 1 counts in device memory, which are 0 between launches.
__device__ inline void SumPartials(const CudaLayerNormBackward& norm, const Blocks& blocks, unsigned* num_ended) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) / kGroupBlocks;
  const int64_t first = group * kGroupBlocks;
  const int64_t end = min(first + kGroupBlocks, blocks.num);
  if (!IsLastBlock(&num_ended[group], static_cast<unsigned>(end - first))) {
    return;
  }
  AddUpPartials(norm, first, 1, end, blocks.threads,
                [&](int64_t i, float sum) { norm.partials[PartialsAt(first, 0, norm.columns) + i] = sum; });
  const int64_t num_groups = (blocks.num + kGroupBlocks - 1) / kGroupBlocks;
  if (!IsLastBlock(&num_ended[kMostGroups], static_cast<unsigned>(num_groups))) {
    return;
  }
  AddUpPartials(norm, 0, kGroupBlocks, blocks.num, blocks.threads, [&](int64_t i, float sum) {
    const LayerNormResult result = i < norm.columns ? norm.weight_gradient : norm.bias_gradient;
    if (result.data != nullptr) {
      Pack total = {};
      total.values[0] = sum;
      Store(total, result.format, result.data, i % norm.columns, /*wide=*/false, /*num=*/1);
    }
  });
}

// Pointers to this block's partials for the weight and for the bias, from a column on.
struct OwnPartials {
  float* of_weight = nullptr;
  float* of_bias = nullptr;
};

__device__ inline OwnPartials OwnPartialsAt(const CudaLayerNormBackward& norm, int64_t column) {
  const auto block = static_cast<int64_t>(blockIdx.x);
  return {norm.partials + PartialsAt(block, 0, norm.columns) + column,
          norm.partials + PartialsAt(block, 1, norm.columns) + column};
}

__device__ inline void ClearPartials(const CudaLayerNormBackward& norm, int64_t column, int num) {
  const OwnPartials own = OwnPartialsAt(norm, column);
  for (int k = 0; k < num; ++k) {
    own.of_weight[k] = 0;
    own.of_bias[k] = 0;
  }
}

}  // namespace ampd::kernels::layer_norm
