#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "worker/amp/step_kernels.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

using executor::TensorMap;

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
};

// One trained tensor. `master` is fp32 and what the optimizer updates; `leaf` is what the graph reads and autograd
// fills with a gradient. They are the same tensor when the policy stores the parameter in fp32. Both have the same
// strides, so that loops over their memory meet the same elements.
struct Parameter {
  std::string name;
  at::Tensor master;
  at::Tensor leaf;
};

// SGD, AdamW and Adam over fp32 masters, numerically torch.optim's. Moments are fp32. A step that is skipped is simply
// not taken: nothing here advances by itself. Single-threaded: owner is the trainer's step loop.
class Optimizer {
 public:
  // Moments are made where the masters are. REQUIRES: `parameters` and `kernels` outlive the optimizer.
  Optimizer(const OptimizerConfig& config, const std::vector<Parameter>& parameters, StepKernels& kernels);

  // Takes one step. `gradients` stand beside the parameters, in their order and with their strides, in any of the
  // formats; `scalars` say what unscales and clips them, and the schedule's factor. Writes masters and leaves.
  void Step(const std::vector<at::Tensor>& gradients, const kernels::StepScalars& scalars);

  int64_t num_steps() const { return num_steps_; }

  // Moments by "<parameter>.<moment>", fp32, contiguous, as copies.
  TensorMap ExportState() const;
  // INVALID_ARGUMENT (reason BAD_STATE) when a moment is missing or has another shape; nothing is changed then.
  absl::Status ImportState(const TensorMap& state, int64_t num_steps);

 private:
  struct Moments {
    at::Tensor first;   // momentum buffer of SGD
    at::Tensor second;  // AdamW and Adam only
  };

  std::vector<std::pair<std::string, at::Tensor>> NamedMoments() const;

  const OptimizerConfig config_;
  const std::vector<Parameter>& parameters_;
  StepKernels& kernels_;
  std::vector<Moments> moments_;
  int64_t num_steps_ = 0;
};

}  // namespace ampd::amp
