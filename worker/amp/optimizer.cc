#include "worker/amp/optimizer.h"

#include <cmath>

#include "ATen/ops/zeros_like.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "worker/amp/format.h"

namespace ampd::amp {

using Kind = OptimizerConfig::Kind;

Optimizer::Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels)
    : config_(config), parameters_(parameters), kernels_(kernels) {
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

void Optimizer::Step(const std::vector<at::Tensor>& gradients, const kernels::StepScalars& scalars) {
  ++num_steps_;
  std::vector<StepTensors> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back({.gradient = gradients[i],
                       .master = parameters_[i].master,
                       .leaf = parameters_[i].leaf,
                       .first = moments_[i].first,
                       .second = moments_[i].second,
                       .learning_rate = config_.learning_rate,
                       .weight_decay = config_.weight_decay});
  }
  if (config_.kind == Kind::kSgd) {
    kernels_.UpdateSgd({.momentum = config_.momentum,
                        .dampening = config_.dampening,
                        .nesterov = config_.nesterov,
                        .first = num_steps_ == 1},
                       scalars, tensors);
  } else {
    const auto t = static_cast<double>(num_steps_);
    kernels_.UpdateAdam({.beta1 = config_.beta1,
                         .beta2 = config_.beta2,
                         .epsilon = config_.epsilon,
                         .l2 = config_.kind == Kind::kAdam,
                         .correction1 = 1 - std::pow(config_.beta1, t),
                         .sqrt_correction2 = std::sqrt(1 - std::pow(config_.beta2, t))},
                        scalars, tensors);
  }
  for (const StepTensors& one : tensors) {
    if (one.gradient.defined()) {
      BumpVersion(one.leaf);
    }
  }
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
