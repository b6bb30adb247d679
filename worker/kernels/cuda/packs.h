#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/cuda/launch.h"

// How the threads of a block traverse the elements of a chunk: in packs of 8 elements. A pack is two 16-byte accesses
// in fp32, or one in a 16-bit format. Only for the sources of libampd_cuda.so.
namespace ampd::kernels {

inline constexpr int kPack = 8;
inline constexpr int kWarp = 32;

struct Pack {
  float values[kPack];
};

// The elements of a chunk that a thread processes.
struct Range {
  int64_t begin, end;
  bool aligned;  // 16-byte accesses are allowed.
};

// Loads `num` elements from `data`; the rest are 0. `wide`: load all kPack elements, from an aligned address.
__device__ inline Pack LoadFloats(const float* data, bool wide, int num) {
  Pack pack = {};
  if (wide) {
    const float4 low = reinterpret_cast<const float4*>(data)[0];
    const float4 high = reinterpret_cast<const float4*>(data)[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = k < num ? data[k] : 0.0f;
  }
  return pack;
}

__device__ inline void StoreFloats(const Pack& pack, float* data, bool wide, int num) {
  const float* v = pack.values;
  if (wide) {
    reinterpret_cast<float4*>(data)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(data)[1] = make_float4(v[4], v[5], v[6], v[7]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (k < num) {
      data[k] = v[k];
    }
  }
}

// A pack of 16-bit elements as stored. LoadHalves and StoreHalves work like LoadFloats and StoreFloats.
struct HalfPack {
  uint16_t values[kPack];
};

__device__ inline HalfPack LoadHalves(const uint16_t* data, bool wide, int num) {
  HalfPack pack = {};
  if (wide) {
    const uint4 words = *reinterpret_cast<const uint4*>(data);
    const uint32_t pairs[] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      pack.values[k] = static_cast<uint16_t>(pairs[k / 2] >> (k % 2 * 16));
    }
    return pack;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = k < num ? data[k] : 0;
  }
  return pack;
}

__device__ inline void StoreHalves(const HalfPack& pack, uint16_t* data, bool wide, int num) {
  if (wide) {
    uint32_t pairs[kPack / 2];
#pragma unroll
    for (int64_t k = 0; k < kPack / 2; ++k) {
      pairs[k] = pack.values[2 * k] | static_cast<uint32_t>(pack.values[2 * k + 1]) << 16;
    }
    *reinterpret_cast<uint4*>(data) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (k < num) {
      data[k] = pack.values[k];
    }
  }
}

// Loads like LoadFloats, but from element `i` on of a tensor in any format, whose first element is at `data`.
__device__ inline Pack Load(Format format, const void* data, int64_t i, bool wide, int num) {
  if (format == Format::kFloat32) {
    return LoadFloats(static_cast<const float*>(data) + i, wide, num);
  }
  const HalfPack halves = LoadHalves(static_cast<const uint16_t*>(data) + i, wide, num);
  Pack pack = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = format == Format::kBFloat16 ? FromBFloat16(halves.values[k]) : FromFloat16(halves.values[k]);
  }
  return pack;
}

__device__ inline void Store(const Pack& pack, Format format, void* data, int64_t i, bool wide, int num) {
  if (format == Format::kFloat32) {
    StoreFloats(pack, static_cast<float*>(data) + i, wide, num);
    return;
  }
  HalfPack halves = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    halves.values[k] = format == Format::kBFloat16 ? ToBFloat16(pack.values[k]) : ToFloat16(pack.values[k]);
  }
  StoreHalves(halves, static_cast<uint16_t*>(data) + i, wide, num);
}

// Calls body(i, wide, num) for each of this thread's packs: for `num` elements from i on. `wide`: whether body may
// use 16-byte accesses.
template <typename Body>
__device__ void ForEachPack(const Range& range, Body body) {
  constexpr int64_t kStride = int64_t{kThreads} * kPack;
  for (int64_t i = range.begin + int64_t{threadIdx.x} * kPack; i < range.end; i += kStride) {
    const int64_t left = range.end - i;
    body(i, range.aligned && left >= kPack, left < kPack ? static_cast<int>(left) : kPack);
  }
}

}  // namespace ampd::kernels
