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
  double beta1 = 0.9;     // beta1, beta2 and epsilon: AdamW and Adam only.
  double beta2 = 0.999;
  double epsilon = 1e-8;
  at::ScalarType moment_dtype =
      at::kFloat;  // fp32, or bfloat16, to which moments are rounded (nearest even) when stored.
  std::vector<ParameterGroup> groups;
  std::optional<double> ema_decay;  // Keeps averages of the parameters over the applied steps.
  uint64_t rounding_seed = 0;       // For stochastic rounding; its stream depends only on this and the step number.
};

// The optimizers SGD, AdamW and Adam, with the numerics of torch.optim. Parameters may be stored in any of the ways
// that parameter.h describes. Averages of parameters are optional: an average starts as its parameter, and each step
// adds (1 - ema_decay) * (parameter - average). The optimizer has no step counter, because a step's decision holds the
// number of the step. Single-threaded; owner: the trainer's step loop.
class Optimizer {
 public:
  // Allocates moments on the device of the masters. REQUIRES: `parameters` and `kernels` outlive the optimizer.
  Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels);

  // Takes one step and writes the parameters; does nothing if `decision` says to skip the step. `gradients`: one per
  // parameter, in order, with its strides, in fp32, bf16 or fp16. REQUIRES: `decision` is in the device's memory and
  // was made by rule().
  void Step(const std::vector<at::Tensor>& gradients, const kernels::StepDecision* decision);

  // The rule for the decisions about this optimizer's steps (kernels/step_control.h). The caller fills in the rule's
  // schedule and clip.
  kernels::PhaseRule rule() const;

  // The averages, one per parameter, in order: fp32, with the parameter's strides. Empty without `ema_decay`.
  const std::vector<at::Tensor>& averages() const { return averages_; }

  // Moments by "<parameter>.<moment>" and averages by "<parameter>.average", as they are stored.
  std::vector<std::pair<std::string, at::Tensor>> NamedState() const;
  // Contiguous fp32 copies of the moments and averages, by the names that NamedState gives. Reuses matching tensors of
  // `reuse` (CopyInto).
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
