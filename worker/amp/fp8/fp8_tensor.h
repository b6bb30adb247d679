#pragma once

#include <cstdint>
#include <optional>

#include "ATen/core/Tensor.h"
#include "precision/fp8_recipe.h"
#include "worker/amp/step/step_kernels.h"

// Matrices in FP8 and their products. Letters: R rows, C columns; K what a product sums over.
namespace ampd::amp {

// How many numbers share a scale, as a rectangle of a matrix. Those at the lower and right edge may be smaller.
struct Fp8Block {
  int64_t rows = 1;
  int64_t columns = 1;
};

// A matrix in FP8: what it stands for is data x inverse_scale of its block, in fp32.
struct Fp8Matrix {
  at::Tensor data;           // (R, C), E4M3 or E5M2
  at::Tensor inverse_scale;  // (R / block.rows, C / block.columns), rounded up, fp32
  Fp8Block block;

  Fp8Matrix Transposed() const;
  // The fp32 matrix that it stands for.
  at::Tensor Widened() const;
};

// The largest finite number of a format: 448 of E4M3, 57344 of E5M2.
double LargestOf(at::ScalarType format);

// max |x| of each block of a fp32 matrix, (R / block.rows, C / block.columns) in fp32. Infinite or NaN where an element
// is.
at::Tensor AmaxOf(const at::Tensor& matrix, const Fp8Block& block);

// largest / amax / 2^margin, rounded down to a power of two where the recipe says so; an amax below the recipe's
// epsilon counts as that. NaN for an amax that is not finite.
at::Tensor ScaleFor(const at::Tensor& amax, at::ScalarType format, const precision::Fp8Recipe& recipe);

// A matrix times `scale` (as AmaxOf is shaped), in `format`: rounded to nearest even, and numbers beyond the largest
// one become that. A block whose scale or `amax` is not finite becomes all NaN, so that saturation hides no overflow.
Fp8Matrix Quantize(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& amax, const Fp8Block& block,
                   at::ScalarType format);

// Which products the tensor cores of a device take.
struct NativeFp8 {
  bool tensors = false;  // of matrices with one scale each
  bool blocks = false;   // of one in blocks of 1x128 with one in blocks of 1x128 or 128x128
};

// None on a CPU; those in blocks on a GPU of the one generation that has them (precision/fp8_recipe.h).
NativeFp8 NativeFp8Of(const ComputeDevice& device);

// a (R, K) times b (C, K) transposed, plus the bias (C), in `dtype`: (R, C). LibTorch's product where the device has
// one; elsewhere the widened matrices are multiplied in fp32. Fast accumulation is for one scale a matrix only.
at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation, const NativeFp8& native);

// The three ways of Product, which agree up to the order of the sum. REQUIRES of the last two: C is a multiple of 16; a
// and b are not both in E5M2. Of the second: one scale a matrix. Of the third: both in E4M3, in blocks of 1x128, or of
// 128x128 for b.
at::Tensor ProductInFp32(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                         at::ScalarType dtype);
at::Tensor ProductOfTensorCores(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                                at::ScalarType dtype, bool fast_accumulation);
at::Tensor ProductOfBlocks(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                           at::ScalarType dtype);

// The scales of an operand of ProductOfBlocks with so many rows, laid out as LibTorch demands them: of blocks of 1x128
// (R, K / 128), of blocks of 128x128 the transposed, its first side padded with zeros to a multiple of 4; either way
// column by column, and rows beyond the matrix's own have 0.
at::Tensor ScalesForBlocks(const Fp8Matrix& matrix, int64_t rows);

}  // namespace ampd::amp
