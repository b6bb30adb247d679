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

// Overrides for tensors whose names match; the first matching group wins.
struct ParameterGroup {
  std::string match;  // Glob on parameter names.
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
};

struct OptimizerConfig {
  enum class Kind { kSgd, kAdamW, kAdam };
  Kind kind = Kind::kSgd;
  double learning_rate = 0;
  double weight_decay = 0;
  double momentum = 0;    // SGD only.
  double dampening = 0;   // SGD only.
  bool nesterov = false;  // SGD only.
  double beta1 = 0.9;     // AdamW and Adam only, like the next two.
  double beta2 = 0.999;
  double epsilon = 1e-8;
  at::ScalarType moment_dtype =
      at::kFloat;  // fp32, or bfloat16, to which moments are rounded (nearest even) when stored.
  std::vector<ParameterGroup> groups;
  std::optional<double> ema_decay;  // Keeps averages of the parameters over the applied steps.
  uint64_t rounding_seed = 0;       // For stochastic rounding; its stream depends only on this and the step number.
};

// SGD, AdamW and Adam, numerically those of torch.optim, over parameters in any storage. An average starts as its
// parameter and is updated by average += (1 - ema_decay) * (parameter - average). The optimizer has no step counter:
// the number of a step is in the decision. Single-threaded; owner: the trainer's step loop.
class Optimizer {
 public:
  // Allocates moments on the device of the masters. REQUIRES: `parameters` and `kernels` outlive the optimizer.
  Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels);

  // Takes one step, unless `decision` is to skip it, and writes the parameters. `gradients` are in the order of the
  // parameters, with their strides, in any of the formats. REQUIRES: `decision` is in the device's memory and was made
  // by rule().
  void Step(const std::vector<at::Tensor>& gradients, const kernels::StepDecision* decision);

  // The rule by which this optimizer's steps are decided; the caller sets its schedule and clip.
  kernels::PhaseRule rule() const;

  // In the order of the parameters, fp32, with their strides; empty without `ema_decay`.
  const std::vector<at::Tensor>& averages() const { return averages_; }

  // Moments by "<parameter>.<moment>" and averages by "<parameter>.average", as they are stored.
  std::vector<std::pair<std::string, at::Tensor>> NamedState() const;
  // Moments and averages by the same names, as contiguous fp32 copies. Reuses matching tensors of `reuse` (CopyInto).
  TensorMap ExportState(TensorMap& reuse) const;
  // Returns INVALID_ARGUMENT (reason BAD_STATE) if a tensor is missing or has another shape; nothing is changed then.
  // If `num_steps` is 0, the averages start as the parameters, whatever the state holds.
  absl::Status ImportState(const TensorMap& state, int64_t num_steps);

 private:
  struct Moments {
    at::Tensor first;   // Momentum buffer of SGD.
    at::Tensor second;  // AdamW and Adam only.
  };

  StepTensors Place(size_t parameter) const;

  const OptimizerConfig config_;
  const std::vector<Parameter>& parameters_;
  StepKernels& kernels_;
  std::vector<ParameterGroup> numbers_;  // For each parameter: its learning rate and weight decay.
  std::vector<Moments> moments_;
  std::vector<at::Tensor> averages_;
};

}  // namespace ampd::amp
