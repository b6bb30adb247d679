#include "worker/amp/fp8_tensor.h"

#include <cmath>
#include <limits>

#include "ATen/ops/_scaled_mm.h"
#include "ATen/ops/constant_pad_nd.h"
#include "ATen/ops/full_like.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/where.h"

namespace ampd::amp {
namespace {

// Tensor cores want sums over a multiple of so many numbers.
constexpr int64_t kSumMultiple = 16;

// Of the bits of a fp32 number.
constexpr int64_t kSignAndExponent = 0xff800000 - 0x100000000;

int64_t RoundedUp(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// A matrix with zeros below and to the right, up to a multiple of the block: (R', C').
at::Tensor Padded(const at::Tensor& matrix, const Fp8Block& block) {
  const int64_t rows = RoundedUp(matrix.size(0), block.rows) - matrix.size(0);
  const int64_t columns = RoundedUp(matrix.size(1), block.columns) - matrix.size(1);
  return rows + columns == 0 ? matrix : at::constant_pad_nd(matrix, {0, columns, 0, rows});
}

// Its blocks: (R' / block.rows, block.rows, C' / block.columns, block.columns).
at::Tensor Blocks(const at::Tensor& matrix, const Fp8Block& block) {
  const at::Tensor padded = Padded(matrix, block);
  return padded.reshape({padded.size(0) / block.rows, block.rows, padded.size(1) / block.columns, block.columns});
}

// A number a block, beside Blocks().
at::Tensor BesideBlocks(const at::Tensor& of_block) { return of_block.unsqueeze(1).unsqueeze(3); }

at::Tensor FromBlocks(const at::Tensor& blocks, const at::Tensor& like) {
  const at::Tensor padded = blocks.reshape({blocks.size(0) * blocks.size(1), blocks.size(2) * blocks.size(3)});
  return padded.narrow(0, 0, like.size(0)).narrow(1, 0, like.size(1)).contiguous();
}

at::Tensor NanLike(const at::Tensor& tensor) { return at::full_like(tensor, std::numeric_limits<float>::quiet_NaN()); }

}  // namespace

Fp8Matrix Fp8Matrix::Transposed() const {
  return {data.t().contiguous(), inverse_scale.t().contiguous(), {block.columns, block.rows}};
}

at::Tensor Fp8Matrix::Widened() const {
  return FromBlocks(Blocks(data.to(at::kFloat), block).mul(BesideBlocks(inverse_scale)), data);
}

double LargestOf(at::ScalarType format) { return format == at::kFloat8_e5m2 ? 57344.0 : 448.0; }

at::Tensor AmaxOf(const at::Tensor& matrix, const Fp8Block& block) { return Blocks(matrix, block).abs().amax({1, 3}); }

at::Tensor ScaleFor(const at::Tensor& amax, at::ScalarType format, const precision::Fp8Recipe& recipe) {
  const double largest = std::ldexp(LargestOf(format), -recipe.margin);
  at::Tensor scale = amax.clamp_min(recipe.amax_epsilon).reciprocal().mul(largest);
  if (recipe.power_of_two_scales) {
    scale = scale.view(at::kInt).bitwise_and(kSignAndExponent).view(at::kFloat);
  }
  return at::where(amax.isfinite(), scale, NanLike(scale));
}

Fp8Matrix Quantize(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& amax, const Fp8Block& block,
                   at::ScalarType format) {
  const at::Tensor sound = at::where(amax.isfinite(), scale, NanLike(scale));
  const double largest = LargestOf(format);
  const at::Tensor scaled = Blocks(matrix, block).mul(BesideBlocks(sound)).clamp_(-largest, largest);
  return {FromBlocks(scaled.to(format), matrix), sound.reciprocal(), block};
}

at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation) {
  const bool one_scale = a.inverse_scale.numel() == 1 && b.inverse_scale.numel() == 1;
  return a.data.is_cuda() && one_scale ? ProductOfTensorCores(a, b, bias, dtype, fast_accumulation)
                                       : ProductInFp32(a, b, bias, dtype);
}

at::Tensor ProductInFp32(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                         at::ScalarType dtype) {
  const auto wide_bias = bias.has_value() ? std::optional(bias->to(at::kFloat)) : std::nullopt;
  return at::linear(a.Widened(), b.Widened(), wide_bias).to(dtype);
}

at::Tensor ProductOfTensorCores(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                                at::ScalarType dtype, bool fast_accumulation) {
  const Fp8Block padding = {1, kSumMultiple};
  const at::Tensor left = Padded(a.data, padding);
  const at::Tensor right = Padded(b.data, padding);
  return at::_scaled_mm(left, right.t(), a.inverse_scale.reshape({}), b.inverse_scale.reshape({}), bias,
                        /*scale_result=*/{}, dtype, fast_accumulation);
}

}  // namespace ampd::amp
