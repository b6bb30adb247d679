#pragma once

#include <cstdint>

// The part of libampd_cuda.so's plain interface (cuda_kernels.h) that converts the bytes of images to numbers.
namespace ampd::kernels {

// Images of C channels, one behind the other. Each channel of an image is a plane: `plane` adjacent bytes. All pointers
// are to device memory. The kernel is fastest if `bytes` is aligned to 8 bytes, `numbers` to 16, and `plane` is a
// multiple of 8.
struct CudaPixels {
  const uint8_t* bytes = nullptr;
  int64_t count = 0;              // Bytes of all images; a multiple of channels * plane.
  int64_t plane = 1;              // At least 1.
  int64_t channels = 1;           // C, at least 1.
  const float* scales = nullptr;  // (C, 2): the mean and the deviation of each channel.
  float* numbers = nullptr;       // `count` numbers.
};

// The function follows the rules of CudaKernels: it allocates nothing, does not wait, is deterministic, and returns 0
// or a cudaError_t.
struct CudaPixelKernels {
  // Sets each number to (byte / 255 - mean) / deviation, in fp32 and rounded after each operation. The result equals
  // that of cpu/pixels.h bit for bit. One launch.
  int (*map)(const CudaPixels* pass, void* stream);
};

// The library's kernels for pixels. The main table (cuda_kernels.h) points to them.
extern const CudaPixelKernels kPixelKernels;

}  // namespace ampd::kernels
