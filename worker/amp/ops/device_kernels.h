#pragma once

#include "ATen/core/ivalue.h"
#include "worker/amp/step/cuda_error.h"
#include "worker/amp/step/current_stream.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// For ops: the CUDA kernels of a device, and the device's current stream. Autograd can keep the object in its
// context, where the backward pass of an op finds it. Thread-compatible.
class DeviceKernels : public torch::CustomClassHolder {
 public:
  // REQUIRES: `device.cuda_kernels` is set.
  explicit DeviceKernels(const ComputeDevice& device) : table_(*device.cuda_kernels), device_(device.device) {}

  const kernels::CudaKernels& table() const { return table_; }
  void* Stream() const { return CurrentStream(device_); }
  // Throws the error that a kernel returned, as c10::OutOfMemoryError or c10::AcceleratorError. Does nothing if `error`
  // is 0.
  void Check(int error) const { CheckCuda(table_, error); }

 private:
  const kernels::CudaKernels& table_;
  const c10::Device device_;
};

}  // namespace ampd::amp
