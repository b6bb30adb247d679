#pragma once

#include "ATen/core/Tensor.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// Converts images that are bytes to numbers, on the device: (byte / 255 - mean) / deviation in fp32, rounded after each
// operation, with the same bits on every device. So the images cross the bus to a GPU as bytes, a quarter of the size.
// Thread-compatible.
class PixelMap {
 public:
  // `scales`: (C, 2) float, the mean and the deviation of each of C channels; (1, 2) if all have the same. Undefined if
  // no images are bytes. The functions of `device` outlive this object.
  PixelMap(const at::Tensor& scales, const ComputeDevice& device);

  // Returns the numbers that the images (B, ...) stand for, in fp32. `bytes` is contiguous, not empty, and on the
  // device. Each image has C equal parts, one per scale, such as the channels of (B, C, H, W). REQUIRES: the scales are
  // defined.
  at::Tensor NumbersOf(const at::Tensor& bytes) const;

  bool defined() const { return scales_.defined(); }

 private:
  const ComputeDevice device_;
  const at::Tensor scales_;  // On the device.
};

}  // namespace ampd::amp
