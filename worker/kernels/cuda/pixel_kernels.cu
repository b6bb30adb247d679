#include "worker/kernels/cuda/launch.h"
#include "worker/kernels/cuda/packs.h"
#include "worker/kernels/cuda/pixel_kernels.h"

// Each thread converts packs of 8 bytes. In each round, the threads of a launch together convert adjacent packs; the
// next round continues behind them, until all packs are converted.
namespace ampd::kernels {
namespace {

constexpr int64_t kMostPixelBlocks = 2112;  // 16 for each of the 132 multiprocessors of an H100.

struct Bytes8 {
  uint8_t values[kPack];
};

__device__ Bytes8 LoadBytes(const uint8_t* data, bool wide, int num) {
  Bytes8 pack = {};
  if (wide) {
    const uint2 words = *reinterpret_cast<const uint2*>(data);
    const uint32_t halves[] = {words.x, words.y};
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      pack.values[k] = static_cast<uint8_t>(halves[k / 4] >> (k % 4 * 8));
    }
    return pack;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    pack.values[k] = k < num ? data[k] : 0;
  }
  return pack;
}

// kWide: a pack is read and written whole, from aligned addresses, and lies within one plane. `step`: the distance in
// bytes between two packs of one thread; all threads of the launch together convert the bytes in between.
template <bool kWide>
__global__ void __launch_bounds__(kThreads) MapPacks(CudaPixels pass, int64_t step) {
  for (int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack; at < pass.count; at += step) {
    const int64_t left = pass.count - at;
    const int num = left < kPack ? static_cast<int>(left) : kPack;
    const Bytes8 bytes = LoadBytes(pass.bytes + at, kWide, num);
    Pack numbers = {};
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const int64_t channel = (kWide ? at : at + k) / pass.plane % pass.channels;
      const float mean = pass.scales[2 * channel];
      const float deviation = pass.scales[2 * channel + 1];
      numbers.values[k] = (static_cast<float>(bytes.values[k]) / 255.0f - mean) / deviation;
    }
    StoreFloats(numbers, pass.numbers + at, kWide, num);
  }
}

int MapPixelBytes(const CudaPixels* pass, void* stream) {
  const bool is_wide = pass->plane % kPack == 0 && reinterpret_cast<uintptr_t>(pass->bytes) % kPack == 0 &&
                       reinterpret_cast<uintptr_t>(pass->numbers) % 16 == 0;
  constexpr int64_t kOfBlock = int64_t{kThreads} * kPack;
  const int64_t blocks = (pass->count + kOfBlock - 1) / kOfBlock;
  const int64_t launched = blocks < kMostPixelBlocks ? blocks : kMostPixelBlocks;
  return Launch(is_wide ? MapPacks<true> : MapPacks<false>, launched, stream, *pass, launched * kOfBlock);
}

}  // namespace

const CudaPixelKernels kPixelKernels = {.map = MapPixelBytes};

}  // namespace ampd::kernels
