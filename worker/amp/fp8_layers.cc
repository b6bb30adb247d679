#include "worker/amp/fp8_layers.h"

#include <utility>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/full.h"
#include "ATen/ops/maximum.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/where.h"
#include "ATen/ops/zeros.h"
#include "worker/executor/dtype.h"

namespace ampd::amp {
namespace {

using Scaling = precision::Fp8Recipe::Scaling;

// What a block is wide along the sum, and of weights both ways.
constexpr int64_t kBlock = 128;

int64_t Index(size_t index) { return static_cast<int64_t>(index); }
template <typename Enum>
int64_t Index(Enum one) {
  return static_cast<int64_t>(one);
}

// cell = max(cell, value); NaN stays.
void Raise(at::Tensor cell, const at::Tensor& value) { cell.copy_(at::maximum(cell, value)); }

std::string ScaleName(const std::string& module) { return module + ".scale"; }
std::string HistoryName(const std::string& module) { return module + ".amax_history"; }
std::string DemotedName(const std::string& module) { return module + ".demoted"; }

at::Tensor OnCpu(const at::Tensor& tensor) { return tensor.to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true); }

}  // namespace

Fp8Layers::Fp8Layers(const precision::Fp8Recipe& recipe, const std::vector<precision::Fp8Layer>& layers,
                     c10::Device device)
    : recipe_(recipe), demoted_(layers.size(), false) {
  for (const precision::Fp8Layer& layer : layers) {
    modules_.push_back(layer.module_path);
  }
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const int64_t num_layers = Index(layers.size());
  for (at::Tensor* table : {&scales_, &amaxes_, &errors_, &underflow_, &saturation_}) {
    *table = at::zeros({num_layers, kFp8Operands}, options);
  }
  if (recipe.scaling == Scaling::kDelayed) {
    history_ = at::zeros({num_layers, kFp8Operands, recipe.amax_history_length}, options);
  }
}

void Fp8Layers::BeginStep(int64_t step) {
  canary_ = recipe_.canary_every_steps > 0 && step % recipe_.canary_every_steps == 0;
  for (at::Tensor* table : {&amaxes_, &errors_, &underflow_, &saturation_}) {
    table->zero_();
  }
}

at::ScalarType Fp8Layers::FormatOf(Fp8Operand operand) const {
  return executor::ToScalarType(operand == Fp8Operand::kGradient ? recipe_.gradient : recipe_.forward);
}

Fp8Block Fp8Layers::BlockOf(Fp8Operand operand, const at::Tensor& matrix, Fp8SumOver sum_over) const {
  if (recipe_.scaling != Scaling::kBlock) {
    return {matrix.size(0), matrix.size(1)};
  }
  if (operand == Fp8Operand::kWeight) {
    return {kBlock, kBlock};
  }
  return sum_over == Fp8SumOver::kColumns ? Fp8Block{1, kBlock} : Fp8Block{kBlock, 1};
}

Fp8Matrix Fp8Layers::Quantize(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8SumOver sum_over,
                              bool records) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = matrix.to(at::kFloat);
  const Fp8Block block = BlockOf(operand, matrix, sum_over);
  const at::ScalarType format = FormatOf(operand);
  const at::Tensor amax = AmaxOf(wide, block);
  at::Tensor scale = ScaleFor(amax, format, recipe_);
  if (recipe_.scaling == Scaling::kDelayed) {
    const at::Tensor known = scales_[Index(layer)][Index(operand)].reshape({1, 1});
    scale = at::where(known.gt(0), known, scale);
    if (records) {
      Raise(amaxes_[Index(layer)][Index(operand)], amax.reshape({}));
    }
  }
  const Fp8Matrix quantized = amp::Quantize(wide, scale, amax, block, format);
  if (canary_ && records) {
    Sample(layer, operand, wide, quantized);
  }
  return quantized;
}

void Fp8Layers::Sample(size_t layer, Fp8Operand operand, const at::Tensor& matrix, const Fp8Matrix& quantized) {
  const at::Tensor back = quantized.Widened();
  const at::Tensor not_zero = matrix.ne(0);
  const at::Tensor lost = not_zero.logical_and(back.eq(0)).sum().div(not_zero.sum().clamp_min(1));
  Raise(underflow_[Index(layer)][Index(operand)], lost.to(at::kFloat));
  if (recipe_.scaling == Scaling::kDelayed) {
    const at::Tensor largest = quantized.inverse_scale.mul(LargestOf(quantized.data.scalar_type()));  // (1, 1)
    Raise(saturation_[Index(layer)][Index(operand)], matrix.abs().gt(largest).to(at::kFloat).mean());
  }
}

void Fp8Layers::Compare(size_t layer, Fp8Product product, const at::Tensor& in_fp8, const at::Tensor& exact) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = exact.to(at::kFloat);
  const at::Tensor error = in_fp8.to(at::kFloat).sub(wide).norm().div(wide.norm().clamp_min(recipe_.amax_epsilon));
  Raise(errors_[Index(layer)][Index(product)], error);
}

// History and scales of Transformer Engine's delayed scaling: the newest amax goes to the front, the scale follows the
// largest of the history. Where none was seen the scale stays.
void Fp8Layers::TakeAmaxes() {
  const at::Tensor kept = history_.narrow(2, 0, history_.size(2) - 1);
  history_ = at::cat({amaxes_.unsqueeze(2), kept}, 2);
  const at::Tensor amax = history_.amax(2);  // (L, 3)
  for (const Fp8Operand operand : {Fp8Operand::kInput, Fp8Operand::kWeight, Fp8Operand::kGradient}) {
    at::Tensor column = scales_.select(1, Index(operand));
    const at::Tensor seen = amax.select(1, Index(operand));
    column.copy_(at::where(seen.gt(0), ScaleFor(seen, FormatOf(operand), recipe_), column));
  }
}

std::vector<Fp8Finding> Fp8Layers::EndStep(bool applied) {
  const at::NoGradGuard no_grad;
  if (!applied) {
    return {};
  }
  if (recipe_.scaling == Scaling::kDelayed) {
    TakeAmaxes();
  }
  if (!canary_) {
    return {};
  }
  const at::Tensor numbers = OnCpu(at::stack({errors_, underflow_, saturation_}));  // (3, L, 3)
  const auto number = numbers.accessor<float, 3>();
  std::vector<Fp8Finding> findings;
  for (size_t layer = 0; layer < modules_.size(); ++layer) {
    if (demoted_[layer]) {
      continue;
    }
    Fp8Finding& finding = findings.emplace_back();
    finding.module = modules_[layer];
    for (int i = 0; i < kFp8Products; ++i) {
      finding.errors[i] = static_cast<double>(number[0][Index(layer)][i]);
      finding.underflow[i] = static_cast<double>(number[1][Index(layer)][i]);
      finding.saturation[i] = static_cast<double>(number[2][Index(layer)][i]);
      finding.demoted = finding.demoted || finding.errors[i] > recipe_.canary_bound;
    }
    demoted_[layer] = finding.demoted;
  }
  return findings;
}

executor::TensorMap Fp8Layers::ExportState() const {
  executor::TensorMap state;
  for (size_t layer = 0; layer < modules_.size(); ++layer) {
    const std::string& module = modules_[layer];
    state[DemotedName(module)] = at::full({1}, demoted_[layer] ? 1 : 0, at::kInt);
    if (recipe_.scaling == Scaling::kDelayed) {
      state[ScaleName(module)] = OnCpu(scales_[Index(layer)]);
      state[HistoryName(module)] = OnCpu(history_[Index(layer)]);
    }
  }
  return state;
}

void Fp8Layers::ImportState(const executor::TensorMap& state) {
  const at::NoGradGuard no_grad;
  for (size_t layer = 0; layer < modules_.size(); ++layer) {
    const auto demoted = state.find(DemotedName(modules_[layer]));
    demoted_[layer] = demoted != state.end() && demoted->second.item<int64_t>() != 0;
    if (recipe_.scaling != Scaling::kDelayed) {
      continue;
    }
    const std::pair<std::string, at::Tensor> targets[] = {{ScaleName(modules_[layer]), scales_[Index(layer)]},
                                                          {HistoryName(modules_[layer]), history_[Index(layer)]}};
    for (const auto& [name, target] : targets) {
      const auto found = state.find(name);
      if (found != state.end() && found->second.sizes() == target.sizes()) {
        target.copy_(found->second);
      } else {
        target.zero_();
      }
    }
  }
}

}  // namespace ampd::amp
