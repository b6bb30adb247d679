#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/cuda/batch_norm_kernels.h"
#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"

// How the kernels of batch norms divide a matrix (R, C) among threads, and load and store its rows. Only for the
// sources of libampd_cuda.so.
namespace ampd::kernels::batch_norm {

static_assert(kPack == kBatchNormPack && kThreads == kBatchNormThreads);

// The type in which an element is stored.
template <Format kFormat>
struct Element {
  using Type = uint16_t;
};
template <>
struct Element<Format::kFloat32> {
  using Type = float;
};
template <Format kFormat>
using Stored = typename Element<kFormat>::Type;

// The number of rows that a thread loads before it uses the first: 64 bytes of each tensor.
template <Format kFormat>
inline constexpr int kBatch = kFormat == Format::kFloat32 ? 2 : 4;

// Eight adjacent elements as stored. Elements of 16 bits lie in pairs, so that they take half as many registers.
template <typename T>
struct alignas(16) Side {
  T values[kPack];
  __device__ T At(int k) const { return values[k]; }
  __device__ void Set(int k, T value) { values[k] = value; }
};
template <>
struct alignas(16) Side<uint16_t> {
  uint32_t pairs[kPack / 2];
  __device__ uint16_t At(int k) const { return static_cast<uint16_t>(pairs[k / 2] >> (k % 2 * 16)); }
  __device__ void Set(int k, uint16_t value) {
    const int shift = k % 2 * 16;
    pairs[k / 2] = (pairs[k / 2] & ~(0xffffu << shift)) | static_cast<uint32_t>(value) << shift;
  }
};

template <Format kFormat>
__device__ float Widened(Stored<kFormat> value) {
  if constexpr (kFormat == Format::kFloat32) {
    return value;
  } else if constexpr (kFormat == Format::kBFloat16) {
    return FromBFloat16(value);
  } else {
    return FromFloat16(value);
  }
}

template <Format kFormat>
__device__ Stored<kFormat> Narrowed(float value) {
  if constexpr (kFormat == Format::kFloat32) {
    return value;
  } else if constexpr (kFormat == Format::kBFloat16) {
    return ToBFloat16(value);
  } else {
    return ToFloat16(value);
  }
}

// The largest number that rounds to 0: half the smallest positive one, because ties round to even.
template <Format kFormat>
__device__ float LargestZero() {
  return kFormat == Format::kFloat32 ? 0.0f : kFormat == Format::kBFloat16 ? 0x1p-134f : 0x1p-25f;
}

// The part of a matrix on which a thread works. It has `num` adjacent channels, the first of which is `channel`, and
// the rows row, row + step, row + 2 * step and so on that are below `end`.
struct Place {
  int64_t channels;
  int64_t channel;
  int num;  // At most kPack.
  int64_t row, end, step;
  bool wide;
};

// Returns the channels of this thread, which all kernels choose in the same way. Does not set the rows.
__device__ inline Place ChannelsOfThread(const CudaBatchNorm& norm, const BatchNormSplit& split) {
  const auto lanes = static_cast<unsigned>(split.lanes);
  const auto across = static_cast<unsigned>(split.across);
  Place place = {};
  place.channels = norm.channels;
  place.channel = (int64_t{blockIdx.x % across} * lanes + threadIdx.x % lanes) * kPack;
  place.num = static_cast<int>(min(norm.channels - place.channel, int64_t{kPack}));
  place.wide = split.wide;
  return place;
}

// Returns where a thread works in a kernel that sums. A group of rows has as many rows as a block reads at a time.
// Group g belongs to slice g % slices. So all blocks together read the matrix once, from its beginning to its end.
__device__ inline Place PlaceToSum(const CudaBatchNorm& norm, const BatchNormSplit& split) {
  const auto lanes = static_cast<unsigned>(split.lanes);
  const int64_t rows_at_once = kThreads / lanes;
  const int64_t slice = blockIdx.x / static_cast<unsigned>(split.across);
  Place place = ChannelsOfThread(norm, split);
  place.step = rows_at_once * split.slices;
  place.row = slice * rows_at_once + threadIdx.x / lanes;
  place.end = place.num > 0 ? norm.rows : 0;  // A thread beyond the last channel has no rows.
  return place;
}

// The number of rows that PlaceToSum gives to each slice.
class RowsOfSlices {
 public:
  __device__ RowsOfSlices(const CudaBatchNorm& norm, const BatchNormSplit& split)
      : rows_at_once_(kThreads / static_cast<unsigned>(split.lanes)) {
    const int64_t groups = (norm.rows + rows_at_once_ - 1) / rows_at_once_;
    of_all_ = groups / split.slices;
    num_longer_ = groups % split.slices;
    last_ = (groups - 1) % split.slices;
    missing_ = groups * rows_at_once_ - norm.rows;
  }
  __device__ int64_t operator()(int64_t slice) const {
    return (of_all_ + (slice < num_longer_ ? 1 : 0)) * rows_at_once_ - (slice == last_ ? missing_ : 0);
  }

 private:
  int64_t rows_at_once_;
  int64_t of_all_ = 0;      // Groups of rows in every slice.
  int64_t num_longer_ = 0;  // Slices with one group more.
  int64_t last_ = 0;        // The slice of the last group.
  int64_t missing_ = 0;     // Rows that the last group lacks.
};

// Where a thread works in a kernel that does not sum: in a slice of consecutive rows. The first blocks have the last
// rows, which are the most likely to be in the cache after a pass from the beginning to the end.
__device__ inline Place PlaceToSpread(const CudaBatchNorm& norm, const BatchNormSplit& split) {
  const auto lanes = static_cast<unsigned>(split.lanes);
  const int64_t slice = split.slices - 1 - blockIdx.x / static_cast<unsigned>(split.across);
  Place place = ChannelsOfThread(norm, split);
  place.step = kThreads / lanes;
  place.row = slice * split.slice_rows + threadIdx.x / lanes;
  place.end = place.num > 0 ? min((slice + 1) * split.slice_rows, norm.rows) : 0;
  return place;
}

template <typename T>
__device__ Side<T> LoadEach(const T* data, int num) {
  Side<T> side = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (k < num) {
      side.Set(k, data[k]);
    }
  }
  return side;
}

// Loads the thread's elements of its next rows, from `row` on. Rows beyond the end are 0.
template <int n, typename T>
__device__ void LoadRows(const void* data, const Place& place, int64_t row, Side<T> (&sides)[n]) {
  const T* const first = static_cast<const T*>(data) + row * place.channels + place.channel;
  const int64_t stride = place.step * place.channels;
  if (place.wide) {
#pragma unroll
    for (int u = 0; u < n; ++u) {
      sides[u] = row + u * place.step < place.end ? *reinterpret_cast<const Side<T>*>(first + u * stride) : Side<T>{};
    }
    return;
  }
#pragma unroll
  for (int u = 0; u < n; ++u) {
    sides[u] = row + u * place.step < place.end ? LoadEach(first + u * stride, place.num) : Side<T>{};
  }
}

template <typename T>
__device__ void StoreRow(const Side<T>& side, void* data, const Place& place, int64_t row) {
  T* const first = static_cast<T*>(data) + row * place.channels + place.channel;
  if (place.wide) {
    *reinterpret_cast<Side<T>*>(first) = side;
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    if (k < place.num) {
      first[k] = side.At(k);
    }
  }
}

// Loads the thread's bytes of ReLU's mask (batch_norm_kernels.h) for its next rows, from `row` on. Rows beyond the end
// are 0.
template <int n>
__device__ void LoadMasks(const uint8_t* data, const Place& place, int64_t row, uint32_t (&masks)[n]) {
  const int64_t columns = BatchNormMaskColumns(place.channels);
  const uint8_t* const first = data + row * columns + place.channel / kPack;
#pragma unroll
  for (int u = 0; u < n; ++u) {
    masks[u] = row + u * place.step < place.end ? uint32_t{first[u * place.step * columns]} : 0u;
  }
}

// Stores the thread's bytes of ReLU's mask for n rows. `masks` holds one byte for each row, the first row's in the
// lowest bits.
template <int n>
__device__ void StoreMasks(uint32_t masks, uint8_t* data, const Place& place, int64_t row) {
  const int64_t columns = BatchNormMaskColumns(place.channels);
  uint8_t* const first = data + row * columns + place.channel / kPack;
#pragma unroll
  for (int u = 0; u < n; ++u) {
    if (row + u * place.step < place.end) {
      first[u * place.step * columns] = static_cast<uint8_t>(masks >> (kPack * u));
    }
  }
}

// Returns the thread's part of a vector that has one number per channel; all numbers are `missing` if the vector is
// null.
__device__ inline Pack LoadChannels(const float* vector, const Place& place, float missing) {
  if (vector != nullptr && place.num > 0) {
    return LoadFloats(vector + place.channel, place.wide, place.num);
  }
  Pack pack;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = missing;
  }
  return pack;
}

// Normalises: (value - mean) * scale + bias.
struct Affine {
  Pack mean, scale, bias;
  __device__ float operator()(float value, int k) const {
    return (value - mean.values[k]) * scale.values[k] + bias.values[k];
  }
};

__device__ inline Affine LoadAffine(const CudaBatchNorm& norm, const Place& place) {
  Affine affine = {LoadChannels(norm.mean, place, 0), LoadChannels(norm.inverse_std, place, 0),
                   LoadChannels(norm.bias, place, 0)};
  const Pack weight = LoadChannels(norm.weight, place, 1);
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    affine.scale.values[k] *= weight.values[k];
  }
  return affine;
}

}  // namespace ampd::kernels::batch_norm
