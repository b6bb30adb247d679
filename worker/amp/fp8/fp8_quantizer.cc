#include "worker/amp/fp8/fp8_quantizer.h"

#include "ATen/ops/where.h"
#include "ATen/ops/zeros.h"
#include "worker/amp/fp8/cuda_fp8_quantizer.h"

namespace ampd::amp {
namespace {

using kernels::kFp8Block;

class CpuFp8Quantizer final : public Fp8Quantizer {
 public:
  explicit CpuFp8Quantizer(const precision::Fp8Recipe& recipe) : recipe_(recipe) {}

  Fp8Forms Quantize(const at::Tensor& matrix, const Fp8Order& order) override {
    const at::Tensor wide = matrix.to(at::kFloat);
    if (order.grain == Fp8Grain::kRows) {
      return {order.plain ? InBlocks(wide, {1, kFp8Block}, order) : Fp8Matrix(),
              order.transposed ? InBlocks(wide, {kFp8Block, 1}, order).Transposed() : Fp8Matrix(),
              {}};
    }
    const bool one_scale = order.grain == Fp8Grain::kTensor;
    const Fp8Block block = one_scale ? Fp8Block{wide.size(0), wide.size(1)} : Fp8Block{kFp8Block, kFp8Block};
    const at::Tensor amax = one_scale && order.known_amax.defined() ? order.known_amax : AmaxOf(wide, block);
    const Fp8Matrix quantized = amp::Quantize(wide, ScaleOf(amax, order), amax, block, order.format);
    return {order.plain ? quantized : Fp8Matrix(), order.transposed ? quantized.Transposed() : Fp8Matrix(),
            one_scale ? amax : at::Tensor()};
  }

  at::Tensor AmaxCell() override { return at::zeros({1, 1}, at::kFloat); }

 private:
  at::Tensor ScaleOf(const at::Tensor& amax, const Fp8Order& order) const {
    const at::Tensor scale = ScaleFor(amax, order.format, recipe_);
    if (!order.known_scale.defined()) {
      return scale;
    }
    const at::Tensor known = order.known_scale.reshape({1, 1});
    return at::where(known.gt(0), known, scale);
  }

  Fp8Matrix InBlocks(const at::Tensor& wide, const Fp8Block& block, const Fp8Order& order) const {
    const at::Tensor amax = AmaxOf(wide, block);
    return amp::Quantize(wide, ScaleFor(amax, order.format, recipe_), amax, block, order.format);
  }

  const precision::Fp8Recipe recipe_;
};

}  // namespace

std::unique_ptr<Fp8Quantizer> Fp8Quantizer::Make(const precision::Fp8Recipe& recipe, const ComputeDevice& device) {
  if (device.cuda_kernels != nullptr) {
    return MakeCudaFp8Quantizer(recipe, device);
  }
  return std::make_unique<CpuFp8Quantizer>(recipe);
}

}  // namespace ampd::amp
