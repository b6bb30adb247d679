#include "worker/amp/optimizer.h"

#include <cmath>

#include "ATen/ops/zeros_like.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "worker/amp/format.h"
#include "worker/kernels/cpu/step_kernels.h"

namespace ampd::amp {

using Kind = OptimizerConfig::Kind;

Optimizer::Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters)
    : config_(config), parameters_(parameters) {
  for (const Parameter& parameter : parameters_) {
    Moments& moments = moments_.emplace_back();
    if (config_.kind != Kind::kSgd || config_.momentum != 0) {
      moments.first = at::zeros_like(parameter.master);
    }
    if (config_.kind != Kind::kSgd) {
      moments.second = at::zeros_like(parameter.master);
    }
  }
}

void Optimizer::Step(const std::vector<at::Tensor>& gradients, float scale, double learning_rate) {
  ++num_steps_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (gradients[i].defined()) {
      UpdateOne(i, gradients[i], scale, learning_rate);
    }
  }
}

void Optimizer::UpdateOne(size_t index, const at::Tensor& gradient, float scale, double learning_rate) {
  const Parameter& parameter = parameters_[index];
  const Moments& moments = moments_[index];
  const int64_t count = parameter.master.numel();
  auto* master = parameter.master.data_ptr<float>();
  const kernels::Format format = FormatOf(gradient);
  if (config_.kind == Kind::kSgd) {
    const kernels::SgdStep step{learning_rate,        config_.momentum, config_.dampening,
                                config_.weight_decay, config_.nesterov, num_steps_ == 1};
    auto* buffer = moments.first.defined() ? moments.first.data_ptr<float>() : nullptr;
    kernels::UpdateSgd(step, scale, format, gradient.const_data_ptr(), master, buffer, count);
  } else {
    const auto t = static_cast<double>(num_steps_);
    const kernels::AdamStep step{learning_rate,
                                 config_.beta1,
                                 config_.beta2,
                                 config_.epsilon,
                                 config_.weight_decay,
                                 config_.kind == Kind::kAdam,
                                 1 - std::pow(config_.beta1, t),
                                 std::sqrt(1 - std::pow(config_.beta2, t))};
    kernels::UpdateAdam(step, scale, format, gradient.const_data_ptr(), master, moments.first.data_ptr<float>(),
                        moments.second.data_ptr<float>(), count);
  }
  WriteLeaf(parameter);
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::NamedMoments() const {
  const bool is_sgd = config_.kind == Kind::kSgd;
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    if (moments_[i].first.defined()) {
      named.emplace_back(absl::StrCat(name, is_sgd ? ".momentum_buffer" : ".exp_avg"), moments_[i].first);
    }
    if (moments_[i].second.defined()) {
      named.emplace_back(absl::StrCat(name, ".exp_avg_sq"), moments_[i].second);
    }
  }
  return named;
}

TensorMap Optimizer::ExportState() const {
  TensorMap state;
  for (const auto& [name, tensor] : NamedMoments()) {
    state[name] = ContiguousCopy(tensor);
  }
  return state;
}

absl::Status Optimizer::ImportState(const TensorMap& state, int64_t num_steps) {
  const auto named = NamedMoments();
  for (const auto& [name, tensor] : named) {
    const auto it = state.find(name);
    if (it == state.end() || it->second.sizes() != tensor.sizes() || it->second.scalar_type() != at::kFloat) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE",
                   absl::StrCat("the optimizer's state has no fp32 tensor ", name, " of the right shape"));
    }
  }
  for (const auto& [name, tensor] : named) {
    tensor.copy_(state.at(name));
  }
  num_steps_ = num_steps;
  return absl::OkStatus();
}

}  // namespace ampd::amp
