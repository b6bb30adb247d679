#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/layer_norm_kernels.h"
#include "worker/kernels/cuda/packs.h"

// How the kernels of layer norms divide a matrix (R, C) among threads, load and store its rows, and add up a row. Only
// for the sources of libampd_cuda.so.
//
// A team of threads, one or more warps, processes a row. Each thread of a team holds one pack of 8 numbers of the row
// in registers, so a row is read once. A block has as many teams as fit. Rows of more than kHeldColumns numbers are
// processed by a whole block, whose threads read their packs again for every pass over the row.
namespace ampd::kernels::layer_norm {

inline constexpr int kMostWarps = 16;  // Warps per block.
inline constexpr int kMostThreads = kMostWarps * kWarp;
inline constexpr int kHeldColumns = kMostThreads * kPack;

struct Teams {
  int warps = 1;  // Warps per team.
  int num = 1;    // Teams per block.
};

// The teams of a block of about `num_threads` threads.
inline Teams TeamsFor(int64_t columns, int num_threads) {
  Teams teams;
  constexpr int64_t kWarpColumns = int64_t{kWarp} * kPack;
  teams.warps = columns > kHeldColumns ? kMostWarps : static_cast<int>((columns + kWarpColumns - 1) / kWarpColumns);
  teams.num = num_threads / (teams.warps * kWarp) > 1 ? num_threads / (teams.warps * kWarp) : 1;
  return teams;
}

inline int64_t NumBlocks(int64_t rows, const Teams& teams) { return (rows + teams.num - 1) / teams.num; }

// Eight adjacent elements as stored: an fp32 number in each word, or two 16-bit numbers in each of the first four
// words. Loads are separate from conversions, so that a thread issues all its loads before it waits for the first.
struct Bits {
  uint32_t words[kPack];
};

inline __device__ bool IsWide(const void* data, int64_t columns, int num) {
  return num == kPack && columns % kPack == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

inline __device__ Bits LoadWideBits(const LayerNormOperand& tensor, int64_t i) {
  if (tensor.format == Format::kFloat32) {
    const auto* const data = reinterpret_cast<const float4*>(static_cast<const float*>(tensor.data) + i);
    const float4 low = data[0];
    const float4 high = data[1];
    return {{std::bit_cast<uint32_t>(low.x), std::bit_cast<uint32_t>(low.y), std::bit_cast<uint32_t>(low.z),
             std::bit_cast<uint32_t>(low.w), std::bit_cast<uint32_t>(high.x), std::bit_cast<uint32_t>(high.y),
             std::bit_cast<uint32_t>(high.z), std::bit_cast<uint32_t>(high.w)}};
  }
  const uint4 pairs = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(tensor.data) + i);
  return {{pairs.x, pairs.y, pairs.z, pairs.w, 0, 0, 0, 0}};
}

// Loads `num` elements of a tensor whose rows have `columns` elements, from element i on; the rest are 0. All are 0 if
// the tensor is absent.
inline __device__ Bits LoadBits(const LayerNormOperand& tensor, int64_t columns, int64_t i, int num) {
  if (tensor.data != nullptr && IsWide(tensor.data, columns, num)) {
    return LoadWideBits(tensor, i);
  }
  Bits bits = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (tensor.data == nullptr || k >= num) {
      continue;
    }
    if (tensor.format == Format::kFloat32) {
      bits.words[k] = std::bit_cast<uint32_t>(static_cast<const float*>(tensor.data)[i + k]);
    } else {
      bits.words[k / 2] |= uint32_t{static_cast<const uint16_t*>(tensor.data)[i + k]} << (k % 2 * 16);
    }
  }
  return bits;
}

inline __device__ Pack Converted(const Bits& bits, Format format) {
  Pack pack = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const auto half = static_cast<uint16_t>(bits.words[k / 2] >> (k % 2 * 16));
    pack.values[k] = format == Format::kFloat32    ? std::bit_cast<float>(bits.words[k])
                     : format == Format::kBFloat16 ? FromBFloat16(half)
                                                   : FromFloat16(half);
  }
  return pack;
}

inline __device__ Pack LoadPack(const LayerNormOperand& tensor, int64_t columns, int64_t i, int num) {
  return Converted(LoadBits(tensor, columns, i, num), tensor.format);
}

// Converts the bits of the weight to numbers. All are 1 if the weight is absent.
inline __device__ Pack Factors(const Bits& bits, const LayerNormOperand& weight) {
  Pack pack = Converted(bits, weight.format);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = weight.data == nullptr ? 1.0f : pack.values[k];
  }
  return pack;
}

inline __device__ void StorePack(const Pack& pack, const LayerNormResult& tensor, int64_t columns, int64_t i, int num) {
  if (tensor.data != nullptr && num > 0) {
    Store(pack, tensor.format, tensor.data, i, IsWide(tensor.data, columns, num), num);
  }
}

inline __device__ float Rounded(float value, Format format) {
  return format == Format::kFloat32    ? value
         : format == Format::kBFloat16 ? FromBFloat16(ToBFloat16(value))
                                       : FromFloat16(ToFloat16(value));
}

// How many of the row's elements from `column` on belong to the thread's pack: at most 8, and 0 behind the row's end.
inline __device__ int NumFrom(int64_t column, int64_t columns) {
  return static_cast<int>(min(max(columns - column, int64_t{0}), int64_t{kPack}));
}

// Replaces each of n values by its sum over the threads of the team, in an order that depends on the team's size only.
// Every thread of the block must call it.
template <int n>
__device__ void SumOverTeam(float (&values)[n], int warps_per_team) {
  __shared__ float of_warps[n][kMostWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int v = 0; v < n; ++v) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      values[v] += __shfl_down_sync(~0u, values[v], offset);
    }
  }
  __syncthreads();  // The sums of an earlier call have been read.
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int v = 0; v < n; ++v) {
      of_warps[v][warp] = values[v];
    }
  }
  __syncthreads();
  const int first = warp / warps_per_team * warps_per_team;
#pragma unroll
  for (int v = 0; v < n; ++v) {
    values[v] = 0;
    for (int w = first; w < first + warps_per_team; ++w) {
      values[v] += of_warps[v][w];
    }
  }
}

}  // namespace ampd::kernels::layer_norm
