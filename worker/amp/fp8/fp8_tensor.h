#pragma once

#include <cstdint>
#include <optional>

#include "ATen/core/Tensor.h"
#include "precision/fp8_recipe.h"
#include "worker/amp/step/step_kernels.h"

// Matrices in FP8 and their products. Letters: R rows, C columns, K the dimension that a product sums over.
namespace ampd::amp {

// The rectangle of a matrix whose numbers share a scale. Blocks at the lower and right edge may be smaller.
struct Fp8Block {
  int64_t rows = 1;
  int64_t columns = 1;
};

// A matrix in FP8. Its value is data x inverse_scale of the block, in fp32.
struct Fp8Matrix {
  at::Tensor data;           // (R, C), E4M3 or E5M2
  at::Tensor inverse_scale;  // (R / block.rows, C / block.columns), rounded up, fp32
  Fp8Block block;

  Fp8Matrix Transposed() const;
  // The value of the matrix, in fp32.
  at::Tensor Widened() const;
};

// The largest finite number of a format: 448 for E4M3, 57344 for E5M2.
double LargestOf(at::ScalarType format);

// max |x| of each block of an fp32 matrix, (R / block.rows, C / block.columns) in fp32, rounded up. Infinite or NaN if
// an element is.
at::Tensor AmaxOf(const at::Tensor& matrix, const Fp8Block& block);

// largest / amax / 2^margin, rounded down to a power of two if the recipe says so. An amax below the recipe's epsilon
// is replaced by the epsilon. NaN if the amax is not finite.
at::Tensor ScaleFor(const at::Tensor& amax, at::ScalarType format, const precision::Fp8Recipe& recipe);

// A matrix times `scale` (shaped like AmaxOf) in `format`, rounded to nearest even and saturated at the largest number.
// A block whose scale or `amax` is not finite becomes all NaN, so that saturation hides no overflow.
Fp8Matrix Quantize(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& amax, const Fp8Block& block,
                   at::ScalarType format);

// Which products the tensor cores of a device support.
struct NativeFp8 {
  bool tensors = false;  // Products of matrices with one scale each.
  bool blocks = false;   // Products of a matrix in blocks of 1x128 with one in blocks of 1x128 or 128x128.
};

// Both are false for a CPU. `blocks` is true only for the one GPU generation that supports it (precision/fp8_recipe.h).
NativeFp8 NativeFp8Of(const ComputeDevice& device);

// a (R, K) times b (C, K) transposed, plus the bias (C), in `dtype`: (R, C). Uses LibTorch's product if the device
// supports it; otherwise widens the matrices and multiplies in fp32. Fast accumulation applies only with one scale per
// matrix.
at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation, const NativeFp8& native);

// The three implementations of Product, which agree up to the order of the sum. REQUIRES: for the last two, C is a
// multiple of 16, and a and b are not both in E5M2; for the second, each matrix has one scale; for the third, both
// matrices are in E4M3, a in blocks of 1x128, and b in blocks of 1x128 or 128x128.
at::Tensor ProductInFp32(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                         at::ScalarType dtype);
at::Tensor ProductOfTensorCores(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                                at::ScalarType dtype, bool fast_accumulation);
at::Tensor ProductOfBlocks(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                           at::ScalarType dtype);

// The scales of an operand of ProductOfBlocks with `rows` rows, in the layout that LibTorch requires. For blocks of
// 1x128: (R, K / 128). For blocks of 128x128: the transposed scales, with the first dimension padded with zeros to a
// multiple of 4. Both are column-major, and rows beyond the matrix's own are 0.
at::Tensor ScalesForBlocks(const Fp8Matrix& matrix, int64_t rows);

}  // namespace ampd::amp
