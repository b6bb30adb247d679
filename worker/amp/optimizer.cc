#include "worker/amp/optimizer.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {

using Kind = OptimizerConfig::Kind;

namespace {

// Returns the parameter's learning rate and weight decay. They come from the first group that matches its name. Values
// that this group does not set, or both if no group matches, come from the optimizer's configuration.
ParameterGroup NumbersOf(const std::string& name, const OptimizerConfig& config) {
  ParameterGroup numbers;
  for (const ParameterGroup& group : config.groups) {
    if (GlobMatches(group.match, name)) {
      numbers = group;
      break;
    }
  }
  numbers.learning_rate = numbers.learning_rate.value_or(config.learning_rate);
  numbers.weight_decay = numbers.weight_decay.value_or(config.weight_decay);
  return numbers;
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels)
    : config_(config), parameters_(parameters), kernels_(kernels) {
  for (const Parameter& parameter : parameters_) {
    numbers_.push_back(NumbersOf(parameter.name, config_));
    Moments& moments = moments_.emplace_back();
    if (config_.kind != Kind::kSgd || config_.momentum != 0) {
      moments.first = EmptyBeside(parameter, config_.moment_dtype).zero_();
    }
    if (config_.kind != Kind::kSgd) {
      moments.second = EmptyBeside(parameter, config_.moment_dtype).zero_();
    }
    if (config_.ema_decay.has_value()) {
      averages_.push_back(EmptyBeside(parameter, at::kFloat).copy_(MasterOf(parameter)));
    }
  }
}

StepTensors Optimizer::Place(size_t parameter) const {
  const Parameter& one = parameters_[parameter];
  return {.gradient = {},
          .master = one.master,
          .leaf = one.leaf,
          .remainder = one.remainder,
          .stochastic = one.stochastic,
          .first = moments_[parameter].first,
          .second = moments_[parameter].second,
          .average = averages_.empty() ? at::Tensor() : averages_[parameter],
          .learning_rate = *numbers_[parameter].learning_rate,
          .weight_decay = *numbers_[parameter].weight_decay};
}

kernels::PhaseRule Optimizer::rule() const {
  return {.schedule = {},
          .average_decay = config_.ema_decay.value_or(0),
          .rounding_seed = config_.rounding_seed,
          .beta1 = config_.beta1,
          .beta2 = config_.beta2};
}

void Optimizer::Step(const std::vector<at::Tensor>& gradients, const kernels::StepDecision* decision) {
  std::vector<StepTensors> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back(Place(i));
    tensors.back().gradient = gradients[i];
  }
  if (config_.kind == Kind::kSgd) {
    kernels_.UpdateSgd({.momentum = config_.momentum, .dampening = config_.dampening, .nesterov = config_.nesterov},
                       decision, tensors);
  } else {
    kernels_.UpdateAdam(
        {.beta1 = config_.beta1, .beta2 = config_.beta2, .epsilon = config_.epsilon, .l2 = config_.kind == Kind::kAdam},
        decision, tensors);
  }
  for (const StepTensors& one : tensors) {
    if (one.gradient.defined()) {
      BumpVersion(one.leaf);
    }
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::NamedState() const {
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
    if (!averages_.empty()) {
      named.emplace_back(absl::StrCat(name, ".average"), averages_[i]);
    }
  }
  return named;
}

TensorMap Optimizer::ExportState(TensorMap& reuse) const {
  TensorMap state;
  for (const auto& [name, tensor] : NamedState()) {
    state[name] = CopyInto(std::move(reuse[name]), tensor, at::kFloat);
  }
  return state;
}

absl::Status Optimizer::ImportState(const TensorMap& state, int64_t num_steps) {
  const auto named = NamedState();
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
  for (size_t i = 0; num_steps == 0 && i < averages_.size(); ++i) {
    averages_[i].copy_(MasterOf(parameters_[i]));
  }
  return absl::OkStatus();
}

}  // namespace ampd::amp
