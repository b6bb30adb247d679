#pragma once

#include <memory>

#include "ATen/core/Tensor.h"
#include "precision/fp8_recipe.h"
#include "worker/amp/fp8/fp8_tensor.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// Which numbers of a matrix share a scale.
enum class Fp8Grain {
  kTensor,   // All numbers of the matrix.
  kRows,     // All numbers of a block of 1x128. The blocks of the transposed matrix lie along its own rows.
  kSquares,  // All numbers of a block of 128x128.
};

// Which FP8 matrices to make of a matrix (R, C).
struct Fp8Order {
  Fp8Grain grain = Fp8Grain::kTensor;
  at::ScalarType format = at::kFloat8_e4m3fn;
  bool plain = false;
  bool transposed = false;
  at::Tensor known_scale;  // kTensor: (1) fp32, used if above 0; undefined: the scale follows from the amax.
  at::Tensor known_amax;   // kTensor: (1, 1) fp32, the amax of the matrix; undefined: the quantizer finds it.
};

struct Fp8Forms {
  Fp8Matrix plain;       // (R, C); without data unless requested.
  Fp8Matrix transposed;  // (C, R); without data unless requested.
  at::Tensor amax;       // kTensor: (1, 1) fp32; infinite or NaN if an element is.
};

// Quantizes matrices to FP8 under a recipe. On a CPU it uses LibTorch's ops on fp32 copies. On a GPU it uses the
// kernels of libampd_cuda.so, which read the matrix once, or twice if the scale is computed from an amax that is not
// known. The results are the same bit for bit, with one exception: if the scale is known and the matrix has an infinity
// or NaN, all results are NaN, but with different bits.
//
// BeginPasses and EndPasses enclose the forward and backward passes of a step. On a GPU, the amaxes of the matrices
// quantized in between, and the results of AmaxCell, are cells of one tensor, which is filled with zeros once.
// Thread-compatible.
class Fp8Quantizer {
 public:
  static std::unique_ptr<Fp8Quantizer> Make(const precision::Fp8Recipe& recipe, const ComputeDevice& device);
  virtual ~Fp8Quantizer() = default;

  // REQUIRES: `matrix` is in fp32, bf16 or fp16 on the device.
  virtual Fp8Forms Quantize(const at::Tensor& matrix, const Fp8Order& order) = 0;
  // Returns a cell (1, 1) fp32 on the device, which is 0, for a kernel that finds the amax of a matrix before the
  // matrix is quantized.
  virtual at::Tensor AmaxCell() = 0;
  virtual void BeginPasses() {}
  virtual void EndPasses() {}
};

}  // namespace ampd::amp
