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

// A matrix in FP8. An element's value, in fp32, is its number in `data` times the inverse scale of its block.
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

// The amax of each block of an fp32 matrix: the largest magnitude, in fp32. Shape: (R / block.rows, C / block.columns),
// both rounded up. Infinite or NaN if an element of the block is.
at::Tensor AmaxOf(const at::Tensor& matrix, const Fp8Block& block);

// The scale that maps `amax` to the largest number of the format: LargestOf(format) / amax / 2^margin, rounded down to
// a power of two if the recipe says so. An amax below the recipe's epsilon is replaced by the epsilon. A scale below
// kernels::kSmallestFp8Scale or above kernels::kLargestFp8Scale is replaced by that limit. NaN if the amax is not
// finite.
at::Tensor ScaleFor(const at::Tensor& amax, at::ScalarType format, const precision::Fp8Recipe& recipe);

// Multiplies a matrix by `scale` (shaped like AmaxOf) and converts it to `format`, rounded to nearest even and
// saturated at the largest number. A block whose scale or `amax` is not finite becomes all NaN, so that saturation
// hides no overflow.
Fp8Matrix Quantize(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& amax, const Fp8Block& block,
                   at::ScalarType format);

// Which products the tensor cores of a device support.
struct NativeFp8 {
  bool tensors = false;  // Products of matrices with one scale each.
  bool blocks = false;   // Products of a matrix in blocks of 1x128 with one in blocks of 1x128 or 128x128.
};

// Determines which FP8 products the device's tensor cores support: none on a CPU. Products in blocks are supported by
// one GPU generation only (precision/fp8_recipe.h).
NativeFp8 NativeFp8Of(const ComputeDevice& device);

// Multiplies a (R, K) by b (C, K) transposed and adds the bias (C). Returns (R, C) in `dtype`. Throws c10::Error if the
// matrices do not have the same K. Uses LibTorch's product
// if the device supports it; otherwise widens the matrices and multiplies in fp32. `fast_accumulation` has an effect
// only if each matrix has a single scale.
at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation, const NativeFp8& native);

// The three implementations of Product. Their results differ only by the order of the sum.
//
// * ProductInFp32 accepts all operands.
// * The other two REQUIRE: C is a multiple of 16, and a and b are not both in E5M2.
// * ProductOfTensorCores also REQUIRES: each matrix has one scale.
// * ProductOfBlocks also REQUIRES: both matrices are in E4M3, a in blocks of 1x128, b in blocks of 1x128 or 128x128.
at::Tensor ProductInFp32(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                         at::ScalarType dtype);
at::Tensor ProductOfTensorCores(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                                at::ScalarType dtype, bool fast_accumulation);
at::Tensor ProductOfBlocks(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                           at::ScalarType dtype);

// The scales of an operand of ProductOfBlocks, in the layout that LibTorch requires. For blocks of 1x128: (R, K / 128).
// For blocks of 128x128: the transposed scales, with the first dimension padded with zeros to a multiple of 4. Both are
// column-major. `rows` is R; if the matrix has fewer rows, the missing scales are 0.
at::Tensor ScalesForBlocks(const Fp8Matrix& matrix, int64_t rows);

}  // namespace ampd::amp
