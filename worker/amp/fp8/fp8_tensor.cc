#include "worker/amp/fp8/fp8_tensor.h"

#include <cmath>
#include <limits>

#include "ATen/BlasBackend.h"
#include "ATen/ops/_scaled_mm.h"
#include "ATen/ops/_scaled_mm_v2.h"
#include "ATen/ops/constant_pad_nd.h"
#include "ATen/ops/full_like.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/where.h"
#include "c10/util/Exception.h"
#include "worker/amp/step/cuda_error.h"

namespace ampd::amp {
namespace {

// Tensor cores require that the dimension that a product sums over is a multiple of this number.
constexpr int64_t kSumMultiple = 16;

// With block scales, tensor cores require that the dimension that a product sums over consists of whole blocks. They
// read the scales of 128x128 blocks four at a time.
constexpr int64_t kBlock = 128;
constexpr int64_t kScaleMultiple = 4;

// Mask of the sign and exponent bits of an fp32 number.
constexpr int64_t kSignAndExponent = 0xff800000 - 0x100000000;

int64_t RoundedUp(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Pads a matrix with zeros below and to the right, up to a multiple of the block: (R', C').
at::Tensor Padded(const at::Tensor& matrix, const Fp8Block& block) {
  const int64_t rows = RoundedUp(matrix.size(0), block.rows) - matrix.size(0);
  const int64_t columns = RoundedUp(matrix.size(1), block.columns) - matrix.size(1);
  return rows + columns == 0 ? matrix : at::constant_pad_nd(matrix, {0, columns, 0, rows});
}

// Pads a matrix and splits it into blocks: (R' / block.rows, block.rows, C' / block.columns, block.columns).
at::Tensor Blocks(const at::Tensor& matrix, const Fp8Block& block) {
  const at::Tensor padded = Padded(matrix, block);
  return padded.reshape({padded.size(0) / block.rows, block.rows, padded.size(1) / block.columns, block.columns});
}

// Reshapes a tensor that has one number per block so that it broadcasts over the result of Blocks().
at::Tensor BesideBlocks(const at::Tensor& of_block) { return of_block.unsqueeze(1).unsqueeze(3); }

at::Tensor FromBlocks(const at::Tensor& blocks, const at::Tensor& like) {
  const at::Tensor padded = blocks.reshape({blocks.size(0) * blocks.size(1), blocks.size(2) * blocks.size(3)});
  return padded.narrow(0, 0, like.size(0)).narrow(1, 0, like.size(1)).contiguous();
}

// Whether LibTorch's product with this result type can add a bias.
bool TakesBias(at::ScalarType dtype) { return dtype != at::kFloat; }

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
  scale = scale.clamp(kernels::kSmallestFp8Scale, kernels::kLargestFp8Scale);
  return at::where(amax.isfinite(), scale, NanLike(scale));
}

Fp8Matrix Quantize(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& amax, const Fp8Block& block,
                   at::ScalarType format) {
  const at::Tensor sound = at::where(amax.isfinite(), scale, NanLike(scale));
  const double largest = LargestOf(format);
  const at::Tensor scaled = Blocks(matrix, block).mul(BesideBlocks(sound)).clamp_(-largest, largest);
  return {FromBlocks(scaled.to(format), matrix), sound.reciprocal(), block};
}

NativeFp8 NativeFp8Of(const ComputeDevice& device) {
  if (!device.device.is_cuda() || device.cuda_kernels == nullptr) {
    return {};
  }
  kernels::CudaDevice described;
  CheckCuda(*device.cuda_kernels, device.cuda_kernels->describe_device(device.device.index(), &described));
  return {true, described.capability_major == precision::kFp8BlockCapabilityMajor};
}

at::Tensor Product(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias, at::ScalarType dtype,
                   bool fast_accumulation, const NativeFp8& native) {
  // The products of tensor cores are padded, so LibTorch would not see two different lengths.
  TORCH_CHECK(a.data.size(1) == b.data.size(1), "a product in FP8 sums over ", a.data.size(1), " and over ",
              b.data.size(1), " numbers; both must be equal");
  const bool one_scale = a.inverse_scale.numel() == 1 && b.inverse_scale.numel() == 1;
  if (one_scale && native.tensors) {
    return ProductOfTensorCores(a, b, bias, dtype, fast_accumulation);
  }
  return !one_scale && native.blocks ? ProductOfBlocks(a, b, bias, dtype) : ProductInFp32(a, b, bias, dtype);
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
  const bool adds_bias = TakesBias(dtype);
  const at::Tensor product =
      at::_scaled_mm(left, right.t(), a.inverse_scale.reshape({}), b.inverse_scale.reshape({}),
                     adds_bias ? bias : std::nullopt, /*scale_result=*/{}, dtype, fast_accumulation);
  return adds_bias || !bias.has_value() ? product : product.add(*bias);
}

at::Tensor ProductOfBlocks(const Fp8Matrix& a, const Fp8Matrix& b, const std::optional<at::Tensor>& bias,
                           at::ScalarType dtype) {
  const at::Tensor left = Padded(a.data, {kSumMultiple, kBlock});
  const at::Tensor right = Padded(b.data, {1, kBlock});
  const at::Tensor left_scales = ScalesForBlocks(a, left.size(0));
  const at::Tensor right_scales = ScalesForBlocks(b, right.size(0));
  const auto kind = [](const Fp8Matrix& matrix) {
    return static_cast<int64_t>(matrix.block.rows == 1 ? at::blas::ScalingType::BlockWise1x128
                                                       : at::blas::ScalingType::BlockWise128x128);
  };
  const bool adds_bias = TakesBias(dtype);
  at::Tensor product = at::_scaled_mm_v2(left, right.t(), {left_scales}, {kind(a)}, /*swizzle_a=*/{}, {right_scales},
                                         {kind(b)}, /*swizzle_b=*/{}, adds_bias ? bias : std::nullopt, dtype)
                           .narrow(0, 0, a.data.size(0));
  return adds_bias || !bias.has_value() ? product : product.add(*bias);
}

at::Tensor ScalesForBlocks(const Fp8Matrix& matrix, int64_t rows) {
  if (matrix.block.rows == 1) {
    return Padded(matrix.inverse_scale.t(), {1, rows}).contiguous().t();
  }
  return Padded(matrix.inverse_scale, {1, kScaleMultiple}).contiguous().t();
}

}  // namespace ampd::amp
