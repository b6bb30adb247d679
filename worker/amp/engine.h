#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"
#include "worker/amp/loss_scaler.h"
#include "worker/amp/optimizer.h"
#include "worker/amp/schedule.h"
#include "worker/amp/step_kernels.h"

namespace ampd::amp {

// Samples of one forward and backward pass, on the CPU; the engine takes them to its device.
struct Batch {
  at::Tensor images;  // (B, ...) float; of a language model, tokens: (B, T) int64
  at::Tensor labels;  // (B) int64; (B, T) beside tokens
};

struct EngineOptions {
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::optional<double> clip_grad_norm;  // global L2 norm, after unscaling
  uint64_t seed = 0;                     // of the first weights
  ComputeDevice device;
};

// What one step did.
struct StepResult {
  float loss = 0;        // mean over the micro-batches, unscaled
  float grad_norm = 0;   // after unscaling, before clipping; not finite on an overflow
  float loss_scale = 1;  // the one that multiplied this step's loss
  double learning_rate = 0;
  bool skipped = false;  // non-finite gradients: nothing was updated
  ScaleChange scale_change = ScaleChange::kNone;
  // On an overflow: the first parameter with non-finite gradients, how many elements there, how many parameters.
  std::string overflow_parameter;
  int64_t overflow_count = 0;
  int num_overflow_parameters = 0;
};

struct EvalSums {
  double loss = 0;  // summed over the samples
  int64_t num_correct = 0;
  int64_t num_samples = 0;  // labels: tokens of a language model
};

// Every bit that the next steps depend on, apart from the data: fp32 tensors on the CPU by their Python names, and
// scalars.
struct EngineState {
  TensorMap model;      // masters and buffers
  TensorMap optimizer;  // moments
  LossScalerState scaler;
  int64_t applied_steps = 0;
  int64_t skipped_steps = 0;
};

// Trains one model under one precision policy on one device: the step of design 6.4, where the host still reads a loss
// a micro-batch and the pre-pass's facts a step.
//
//   forward -> scaled loss -> backward            for each micro-batch, gradients summed in fp32
//   pre-pass: norm and non-finite count            one read of the gradients
//   update: unscale x clip x optimizer x cast      skipped when a gradient is not finite
//   tail: loss scale
//
// A skipped step changes nothing but the loss scale: not the weights, moments, schedule or step counts. Errors of
// LibTorch leave it as c10::Error. On a GPU the policy sets LibTorch's fp32 products to ieee or tf32, for the whole
// process. Single-threaded: owner is the trainer's step loop.
class Engine {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED as the passes and the executor say. `model` has one output "logits" (B, classes).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const graph::Graph& model,
                                                        const precision::ResolvedPolicy& policy,
                                                        const EngineOptions& options);
  ~Engine();

  // One optimizer step over the micro-batches. REQUIRES: at least one, all of the same size.
  StepResult Step(const std::vector<Batch>& micro_batches);

  // Runs the evaluation program under the same policy. Changes nothing.
  EvalSums Evaluate(const Batch& batch);

  LossScaler& scaler() { return scaler_; }
  int64_t applied_steps() const { return applied_steps_; }
  int64_t skipped_steps() const { return skipped_steps_; }

  // Copies; what a later step does leaves them alone.
  EngineState ExportState() const;
  // INVALID_ARGUMENT (reason BAD_STATE) when the state is of another model or optimizer; the engine is unusable then.
  absl::Status ImportState(const EngineState& state);

 private:
  struct Programs;
  // What the pre-pass found over all gradients.
  struct Found {
    double norm = 0;  // of the gradients as they are, scaled
    std::string parameter;
    int64_t count = 0;
    int num_parameters = 0;
  };

  Engine(const EngineOptions& options, const precision::ResolvedPolicy& policy);

  void MakeParameters(const TensorMap& initial, const precision::ResolvedPolicy& policy);
  absl::Status Bind();
  float ForwardBackward(const Batch& batch, float scale, int num_micro_batches);
  void GatherGradients(bool accumulate);
  Batch OnDevice(const Batch& batch) const;
  Found Examine();
  void Tail(bool found_inf, StepResult& result);

  const EngineOptions options_;
  const bool sums_in_fp32_;  // of gradients over micro-batches; otherwise in the leaves' format
  LossScaler scaler_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<StepKernels> kernels_;
  std::vector<Parameter> parameters_;
  TensorMap buffers_;
  std::vector<at::Tensor> gradients_;  // beside parameters_
  std::unique_ptr<Optimizer> optimizer_;
  int64_t applied_steps_ = 0;
  int64_t skipped_steps_ = 0;
};

}  // namespace ampd::amp
