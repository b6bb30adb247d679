#include "worker/amp/step/pixel_map.h"

#include <algorithm>

#include "ATen/ops/empty.h"
#include "c10/util/Exception.h"
#include "worker/amp/step/cuda_error.h"
#include "worker/amp/step/current_stream.h"
#include "worker/kernels/cpu/pixels.h"

namespace ampd::amp {
namespace {

// The loop of the CPU, plane by plane.
void MapOnCpu(const kernels::CudaPixels& pass) {
  static const kernels::MapPixels map_pixels = kernels::BestPixels();
  for (int64_t at = 0, plane = 0; at < pass.count; at += pass.plane, ++plane) {
    const float* const scale = pass.scales + 2 * (plane % pass.channels);
    map_pixels(pass.bytes + at, pass.plane, kernels::PixelScale::Of(scale[0], scale[1]), pass.numbers + at);
  }
}

}  // namespace

PixelMap::PixelMap(const at::Tensor& scales, const ComputeDevice& device)
    : device_(device), scales_(scales.defined() ? scales.to(device.device, at::kFloat).contiguous() : scales) {}

at::Tensor PixelMap::NumbersOf(const at::Tensor& bytes) const {
  const int64_t channels = scales_.size(0);
  TORCH_CHECK(bytes.is_contiguous() && bytes.numel() % (bytes.size(0) * channels) == 0,
              "images of bytes have the shape ", bytes.sizes(), " and ", channels, " channels");
  at::Tensor numbers = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
  const kernels::CudaPixels pass = {.bytes = bytes.const_data_ptr<uint8_t>(),
                                    .count = bytes.numel(),
                                    .plane = bytes.numel() / bytes.size(0) / channels,
                                    .channels = channels,
                                    .scales = scales_.const_data_ptr<float>(),
                                    .numbers = numbers.mutable_data_ptr<float>()};
  if (device_.cuda_kernels == nullptr) {
    MapOnCpu(pass);
  } else {
    CheckCuda(*device_.cuda_kernels, device_.cuda_kernels->pixels->map(&pass, CurrentStream(device_.device)));
  }
  return numbers;
}

}  // namespace ampd::amp
