#pragma once

#include <memory>

#include "worker/amp/fp8/fp8_quantizer.h"

namespace ampd::amp {

// Makes a quantizer that uses the kernels of libampd_cuda.so on LibTorch's current stream and does not wait for it.
// REQUIRES: `device.cuda_kernels` is set; every matrix is on `device.device`.
std::unique_ptr<Fp8Quantizer> MakeCudaFp8Quantizer(const precision::Fp8Recipe& recipe, const ComputeDevice& device);

}  // namespace ampd::amp
