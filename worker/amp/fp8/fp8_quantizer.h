#pragma once

#include <memory>

#include "ATen/core/Tensor.h"
#include "precision/fp8_recipe.h"
#include "worker/amp/fp8/fp8_tensor.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// Which numbers of a matrix share a scale.
enum class Fp8Grain {
  kTensor,   // all
  kRows,     // 1x128; of the transposed matrix those of its own rows
  kSquares,  // 128x128
};

// What is wanted of a matrix (R, C).
struct Fp8Order {
  Fp8Grain grain = Fp8Grain::kTensor;
  at::ScalarType format = at::kFloat8_e4m3fn;
  bool plain = false;
  bool transposed = false;
  at::Tensor known_scale;  // kTensor: (1) fp32, taken where it is above 0; undefined: what follows from the amax
};

struct Fp8Forms {
  Fp8Matrix plain;       // (R, C); without data where it was not asked for, as the next one
  Fp8Matrix transposed;  // (C, R)
  at::Tensor amax;       // kTensor: (1, 1) fp32, infinite or NaN where an element is
};

// Brings matrices into FP8 under a recipe: on a CPU by LibTorch's ops on fp32 copies, on a GPU through the kernels of
// libampd_cuda.so in one read, or two where a scale follows from all numbers. Both give the same bits; only what a
// known scale makes of a matrix that is not finite they write differently, for all of it is NaN. Thread-compatible.
class Fp8Quantizer {
 public:
  static std::unique_ptr<Fp8Quantizer> Make(const precision::Fp8Recipe& recipe, const ComputeDevice& device);
  virtual ~Fp8Quantizer() = default;

  // REQUIRES: a matrix in fp32, bf16 or fp16 on the device.
  virtual Fp8Forms Quantize(const at::Tensor& matrix, const Fp8Order& order) const = 0;
};

}  // namespace ampd::amp
