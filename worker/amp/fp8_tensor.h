#pragma once

#include <cstdint>
#include <optional>

#include "ATen/core/Tensor.h"
#include "precision/fp8_recipe.h"

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

// a (R, K) times b (C, K) transposed, plus the bias (C), in `dtype`: (R, C). On a CPU, and for scales of blocks, the
// widened matrices are multiplied in fp32; otherwise LibTorch's FP8 product is taken.
at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation);

// The two ways of Product, which agree up to the order of the sum. REQUIRES of the second: one scale a matrix; C is a
// multiple of 16; a and b are not both in E5M2.
at::Tensor ProductInFp32(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                         at::ScalarType dtype);
at::Tensor ProductOfTensorCores(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                                at::ScalarType dtype, bool fast_accumulation);

}  // namespace ampd::amp
