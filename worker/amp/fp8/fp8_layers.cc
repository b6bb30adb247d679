#include "worker/amp/fp8/fp8_layers.h"

#include <algorithm>
#include <limits>
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

int64_t Index(size_t index) { return static_cast<int64_t>(index); }
template <typename Enum>
int64_t Index(Enum one) {
  return static_cast<int64_t>(one);
}

// cell = max(cell, value); NaN propagates.
void Raise(at::Tensor cell, const at::Tensor& value) { at::maximum_out(cell, cell, value); }

std::string ScaleName(const std::string& module) { return module + ".scale"; }
std::string HistoryName(const std::string& module) { return module + ".amax_history"; }
std::string DemotedName(const std::string& module) { return module + ".demoted"; }

at::Tensor OnCpu(const at::Tensor& tensor) { return tensor.to(at::kCPU, tensor.scalar_type(), false, /*copy=*/true); }

}  // namespace

Fp8Layers::Fp8Layers(const precision::Fp8Recipe& recipe, const std::vector<precision::Fp8Layer>& layers,
                     const ComputeDevice& device)
    : recipe_(recipe),
      quantizer_(Fp8Quantizer::Make(recipe, device)),
      native_(NativeFp8Of(device)),
      demoted_(layers.size(), false) {
  for (const precision::Fp8Layer& layer : layers) {
    modules_.push_back(layer.module_path);
  }
  const auto options = at::TensorOptions(at::kFloat).device(device.device);
  const int64_t num_layers = Index(layers.size());
  scales_ = at::zeros({num_layers, kFp8Operands}, options);
  of_step_ = at::zeros({4, num_layers, kFp8Operands}, options);
  amaxes_ = of_step_[0];
  errors_ = of_step_[1];
  underflow_ = of_step_[2];
  saturation_ = of_step_[3];
  if (recipe.scaling == Scaling::kDelayed) {
    history_ = at::zeros({num_layers, kFp8Operands, recipe.amax_history_length}, options);
  }
}

void Fp8Layers::BeginStep(int64_t step) {
  canary_ = recipe_.canary_every_steps > 0 && step % recipe_.canary_every_steps == 0;
  of_step_.zero_();
}

at::ScalarType Fp8Layers::FormatOf(Fp8Operand operand) const {
  return executor::ToScalarType(operand == Fp8Operand::kGradient ? recipe_.gradient : recipe_.forward);
}

Fp8Grain Fp8Layers::GrainOf(Fp8Operand operand) const {
  if (recipe_.scaling != Scaling::kBlock) {
    return Fp8Grain::kTensor;
  }
  return operand == Fp8Operand::kWeight ? Fp8Grain::kSquares : Fp8Grain::kRows;
}

Fp8Forms Fp8Layers::FormsOf(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums,
                            const at::Tensor& known_amax) {
  Fp8Order order;
  order.grain = GrainOf(operand);
  order.format = FormatOf(operand);
  order.plain = sums.over_columns;
  order.transposed = sums.over_rows;
  if (recipe_.scaling == Scaling::kDelayed) {
    order.known_scale = scales_[Index(layer)][Index(operand)];
  }
  order.known_amax = known_amax;
  return quantizer_->Quantize(matrix, order);
}

Fp8Operands Fp8Layers::Quantize(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums, bool records,
                                const at::Tensor& known_amax) {
  const at::NoGradGuard no_grad;
  Fp8Forms forms = FormsOf(layer, operand, matrix, sums, known_amax);
  if (records) {
    RecordAmax(layer, operand, forms.amax);
    SampleForms(layer, operand, matrix, sums, forms);
  }
  return {std::move(forms.plain), std::move(forms.transposed)};
}

Fp8Operands Fp8Layers::QuantizeWeight(size_t layer, const at::Tensor& weight, Fp8Sums sums, Fp8Sums later,
                                      bool records) {
  Fp8WeightCache::Entry* const entry = weights_.Find(layer, weight);
  if (entry == nullptr) {
    return Quantize(layer, Fp8Operand::kWeight, weight, sums, records);
  }
  const at::NoGradGuard no_grad;
  Fp8Forms& kept = entry->forms;
  const auto missing = [&](const Fp8Sums& wanted) -> Fp8Sums {
    return {.over_columns = wanted.over_columns && !kept.plain.data.defined(),
            .over_rows = wanted.over_rows && !kept.transposed.data.defined()};
  };
  if (missing(sums).any()) {
    const Fp8Sums made = missing({sums.over_columns || later.over_columns, sums.over_rows || later.over_rows});
    Fp8Forms forms = FormsOf(layer, Fp8Operand::kWeight, weight, made, /*known_amax=*/{});
    kept.plain = made.over_columns ? std::move(forms.plain) : kept.plain;
    kept.transposed = made.over_rows ? std::move(forms.transposed) : kept.transposed;
    kept.amax = std::move(forms.amax);
  }
  if (records && !std::exchange(entry->amax_recorded, true)) {
    RecordAmax(layer, Fp8Operand::kWeight, kept.amax);
  }
  if (records) {
    SampleForms(layer, Fp8Operand::kWeight, weight, sums, kept);
  }
  return {sums.over_columns ? kept.plain : Fp8Matrix(), sums.over_rows ? kept.transposed : Fp8Matrix()};
}

// With delayed scaling: includes `amax` in the maximum of the operand's magnitudes in this step.
void Fp8Layers::RecordAmax(size_t layer, Fp8Operand operand, const at::Tensor& amax) {
  if (recipe_.scaling == Scaling::kDelayed) {
    Raise(amaxes_[Index(layer)][Index(operand)], amax.reshape({}));
  }
}

// In canary steps: compares the operand with the FP8 matrices made from it. Records the share of its numbers that
// underflowed and, with delayed scaling, the share that were saturated.
void Fp8Layers::SampleForms(size_t layer, Fp8Operand operand, const at::Tensor& matrix, Fp8Sums sums,
                            const Fp8Forms& forms) {
  if (canary_ && sums.over_columns) {
    Sample(layer, operand, matrix, forms.plain);
  }
  if (canary_ && sums.over_rows) {
    Sample(layer, operand, matrix.t(), forms.transposed);
  }
}

void Fp8Layers::Sample(size_t layer, Fp8Operand operand, const at::Tensor& matrix, const Fp8Matrix& quantized) {
  const at::Tensor back = quantized.Widened();
  const at::Tensor wide = matrix.to(at::kFloat);
  const at::Tensor not_zero = wide.ne(0);
  const at::Tensor lost = not_zero.logical_and(back.eq(0)).sum().div(not_zero.sum().clamp_min(1));
  Raise(underflow_[Index(layer)][Index(operand)], lost.to(at::kFloat));
  if (recipe_.scaling == Scaling::kDelayed) {
    const at::Tensor largest = quantized.inverse_scale.mul(LargestOf(quantized.data.scalar_type()));  // (1, 1)
    Raise(saturation_[Index(layer)][Index(operand)], wide.abs().gt(largest).to(at::kFloat).mean());
  }
}

void Fp8Layers::Compare(size_t layer, Fp8Product product, const at::Tensor& in_fp8, const at::Tensor& exact) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = exact.to(at::kFloat);
  // A tiny epsilon is 0 in fp32.
  const double least_norm = std::max<double>(recipe_.amax_epsilon, std::numeric_limits<float>::min());
  const at::Tensor error = in_fp8.to(at::kFloat).sub(wide).norm().div(wide.norm().clamp_min(least_norm));
  Raise(errors_[Index(layer)][Index(product)], error);
}

// Transformer Engine's delayed scaling. The step's amax (largest magnitude) becomes the first entry of the history, and
// the scale follows from the largest entry. A scale stays if its whole history is zero or the step was skipped. All
// tensors are updated in place, because recorded steps read them at fixed addresses.
void Fp8Layers::EndStep(const at::Tensor& skipped) {
  if (recipe_.scaling != Scaling::kDelayed) {
    return;
  }
  const at::NoGradGuard no_grad;
  const at::Tensor kept = history_.narrow(2, 0, history_.size(2) - 1);
  const at::Tensor next = at::cat({amaxes_.unsqueeze(2), kept}, 2);
  const at::Tensor amax = next.amax(2);  // (L, 3)
  const at::Tensor moves = amax.gt(0).logical_and(skipped.logical_not());
  for (const Fp8Operand operand : {Fp8Operand::kInput, Fp8Operand::kWeight, Fp8Operand::kGradient}) {
    at::Tensor column = scales_.select(1, Index(operand));
    const at::Tensor scale = ScaleFor(amax.select(1, Index(operand)), FormatOf(operand), recipe_);
    column.copy_(at::where(moves.select(1, Index(operand)), scale, column));
  }
  history_.copy_(at::where(skipped, history_, next));
}

std::vector<Fp8Finding> Fp8Layers::Judge(bool skipped) {
  if (!canary_ || skipped) {
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
    num_changes_ += finding.demoted ? 1 : 0;
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
    const bool is_demoted = demoted != state.end() && demoted->second.item<int64_t>() != 0;
    num_changes_ += is_demoted != demoted_[layer] ? 1 : 0;
    demoted_[layer] = is_demoted;
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

Fp8PassScope::Fp8PassScope(Fp8Layers* layers) : layers_(layers) {
  if (layers_ != nullptr) {
    layers_->weights_.Open();
    layers_->quantizer_->BeginPasses();
  }
}

Fp8PassScope::~Fp8PassScope() {
  if (layers_ != nullptr) {
    layers_->weights_.Close();
    layers_->quantizer_->EndPasses();
  }
}

}  // namespace ampd::amp
