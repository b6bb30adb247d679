#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "worker/amp/parameter.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

using executor::TensorMap;

// Tensors whose names match have numbers of their own; the first group that matches wins.
struct ParameterGroup {
  std::string match;  // glob
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
};

struct OptimizerConfig {
  enum class Kind { kSgd, kAdamW, kAdam };
  Kind kind = Kind::kSgd;
  double learning_rate = 0;
  double weight_decay = 0;
  double momentum = 0;    // SGD
  double dampening = 0;   // SGD
  bool nesterov = false;  // SGD
  double beta1 = 0.9;     // AdamW, Adam
  double beta2 = 0.999;
  double epsilon = 1e-8;
  at::ScalarType moment_dtype = at::kFloat;  // or bfloat16, rounded to nearest even as they are stored
  std::vector<ParameterGroup> groups;
  std::optional<double> ema_decay;  // keeps averages of the parameters over the applied steps
  uint64_t rounding_seed = 0;       // of stochastic rounding; with the number of steps, all that its stream depends on
};

// SGD, AdamW and Adam, numerically torch.optim's, over parameters however they are stored. An average begins as its
// parameter and moves by average += (1 - ema_decay) * (parameter - average). Nothing here advances
// by itself: the number of a step is the decision's. Single-threaded: owner is the trainer's step loop.
class Optimizer {
 public:
  // Moments are made where the masters are. REQUIRES: `parameters` and `kernels` outlive the optimizer.
  Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels);

  // Takes one step, unless `decision` is to skip it. `gradients` stand beside the parameters, in their order and with
  // their strides, in any of the formats. Writes the parameters. REQUIRES: `decision` is in the device's memory, and
  // was settled by rule().
  void Step(const std::vector<at::Tensor>& gradients, const kernels::StepDecision* decision);

  // What this optimizer's steps are decided by; schedule and clip are not its own.
  kernels::PhaseRule rule() const;

  // Beside the parameters, fp32, with their strides; empty without `ema_decay`.
  const std::vector<at::Tensor>& averages() const { return averages_; }

  // Moments and averages by "<parameter>.<moment>", an average's ".average", as they are kept.
  std::vector<std::pair<std::string, at::Tensor>> NamedState() const;
  // Moments and averages by "<parameter>.<moment>", fp32, contiguous, as copies, in tensors taken out of `room` where
  // it has such (CopyInto).
  TensorMap ExportState(TensorMap& room) const;
  // INVALID_ARGUMENT (reason BAD_STATE) when one is missing or has another shape; nothing is changed then. At
  // `num_steps` 0, before the first one, the averages begin as the parameters, whatever the state says.
  absl::Status ImportState(const TensorMap& state, int64_t num_steps);

 private:
  struct Moments {
    at::Tensor first;   // momentum buffer of SGD
    at::Tensor second;  // AdamW and Adam only
  };

  StepTensors Place(size_t parameter) const;

  const OptimizerConfig config_;
  const std::vector<Parameter>& parameters_;
  StepKernels& kernels_;
  std::vector<ParameterGroup> numbers_;  // beside the parameters, both numbers set
  std::vector<Moments> moments_;
  std::vector<at::Tensor> averages_;
};

}  // namespace ampd::amp
