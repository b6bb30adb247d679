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
#include "c10/core/Device.h"
#include "graph/graph.h"
#include "worker/amp/activation_sample.h"
#include "worker/amp/gradient_sample.h"
#include "worker/amp/optimizer.h"
#include "worker/amp/parameter.h"
#include "worker/amp/schedule.h"
#include "worker/amp/step/step_graph.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/amp/step/step_scalars.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

// Samples of one forward and backward pass, on the CPU; the engine takes them to its device.
struct Batch {
  // For the model's first input: (B, ...) float; of a text, tokens: (B, T) int64. Undefined where `others` has it.
  at::Tensor images;
  at::Tensor labels;      // (B) int64; (B, T) of a language model; as the model's head takes them
  TensorMap others = {};  // (B, ...); for other inputs, by name
  // What the batch counts of its step, a fp64 scalar: its share of all labels. The engine sets it; undefined: 1.
  at::Tensor share = {};
};

// Of a batch that has images or anything else.
int64_t NumSamples(const Batch& batch);

// What a program takes of a batch, in the order of its inputs; a mask of truths as numbers where it takes those. Throws
// c10::Error for an input that the batch has not.
std::vector<at::Tensor> InputsOf(const graph::Graph& program, const Batch& batch, c10::Device device);

// One loss of a model, the parameters that it trains and their optimizer.
struct PhaseOptions {
  std::string name;              // distinct from the others'
  std::string loss;              // an output of the model; empty: that of its head
  std::string parameters = "*";  // glob on their names
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::optional<double> clip_grad_norm;  // global L2 norm over the phase's parameters, after unscaling
};

// What one phase of a step did.
struct PhaseResult {
  std::string phase;
  float loss = 0;       // mean over the labels of all micro-batches, unscaled
  float grad_norm = 0;  // after unscaling, before clipping; not finite on an overflow
  double learning_rate = 0;
  bool skipped = false;  // nothing was updated
  // On an overflow: the parameter with non-finite gradients that the backward pass met first, the module that reads it,
  // how many elements there, and how many elements and parameters in all. When the loss is finite, that is where the
  // overflow began; otherwise it began in the forward pass or in the data.
  std::string overflow_parameter;
  std::string overflow_module;
  int64_t overflow_count = 0;
  int64_t total_overflow_count = 0;
  int num_overflow_parameters = 0;
  // Of the first micro-batch that counts anything, where it was sampled.
  std::vector<GradientSample> samples;              // of its gradients
  bool sampled_activations = false;                 // of its forward pass, which
  std::optional<ActivationFault> activation_fault;  // had this
};

// What was looked at of a phase's step.
struct PhaseSamples {
  std::vector<GradientSample> gradients;
  bool has_activations = false;
  std::optional<ActivationFault> activation_fault;
};

// A part of the engine's step: the program of one loss, and the parameters, gradients, optimizer and schedule that
// belong to it. A phase has the gradients of its own parameters only: the others are constants of its program. What
// it counts and schedules are the steps that it applied itself. Single-threaded: owner is the engine.
class Phase {
 public:
  struct Setup {
    PhaseOptions options;
    uint64_t seed = 0;         // of dropout's random numbers
    bool sums_in_fp32 = true;  // of gradients over micro-batches; otherwise in the leaves' format
    c10::Device device = c10::Device(c10::DeviceType::CPU);
  };
  // What all phases of a step have in common.
  struct StepConditions {
    uint64_t random_stream = 0;
    bool samples = false;               // of activations, and of gradients that were rounded to fp16
    bool samples_every_format = false;  // then those of all formats
    // Of micro-batches that have nothing to train on beside others that have: these run forward only. Empty: none.
    std::vector<bool> counts_nothing = {};
    // Records the step, when it is set. Micro-batch i of n uses its seed i, behind the n of every phase before.
    StepGraph* recorder = nullptr;
  };

  // `source` is `program`'s graph before the precision pass, whose nodes still read the parameters themselves.
  // REQUIRES: `kernels` outlive the phase; `parameters` are some of the program's.
  Phase(Setup setup, const graph::Graph& source, std::unique_ptr<executor::Executor> program,
        std::vector<Parameter> parameters, StepKernels& kernels);
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  // Takes buffers and the other phases' parameters from `state`, which must not require gradients. BAD_STATE as
  // Executor::Bind.
  absl::Status Bind(TensorMap state);

  // From here on the phase is the one of this number in `scalars`, which outlive it.
  void Use(const StepScalars& scalars, size_t number);
  // Whether a step that samples finds gradients that were rounded to fp16.
  bool has_samples() const;
  // What its steps are decided by.
  kernels::PhaseRule rule() const;

  // By batch counter, how much a micro-batch adds to it.
  const std::map<std::string, int64_t>& batches_counted() const { return batches_counted_; }

  // What random ops follow from a micro-batch's beginning on, if the program has any.
  bool is_random() const { return is_random_; }
  uint64_t SeedOf(uint64_t random_stream, size_t micro_batch) const;

  // What the host notes of every step, whoever computes it.
  void BeginStep() { averages_rounded_ = false; }
  // Forward and scaled backward over the micro-batches, and the pre-pass: one read of the gradients for their norm and
  // what is not finite in them, left on the device. Writes no parameter; buffers are written and kept aside as they
  // were. What a step that was broken off left behind is dropped. Waits for the device only where gradients or
  // activations are sampled; gives the samples.
  PhaseSamples Compute(const std::vector<Batch>& micro_batches, const StepConditions& step);
  // Engine::FindActivationFault, of this phase.
  std::optional<ActivationFault> FindActivationFault(const std::vector<Batch>& micro_batches, uint64_t random_stream);
  // Ends what Compute began, once it is decided: updates the parameters, or, skipped, puts the buffers back as they
  // were before it. Waits for nothing.
  void Finish();
  // What the step of this record did, and counts it. Records come in the order of the steps.
  PhaseResult Conclude(const StepRecord& record);

  const std::string& name() const { return setup_.options.name; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // As of the last step that was concluded.
  int64_t applied_steps() const { return applied_steps_; }

  // By parameter, what an evaluation reads: its average where the optimizer keeps averages, otherwise its leaf. The
  // same tensors every time.
  TensorMap EvaluationWeights();
  // Brings the averages in a leaf's format up to date, where a step has passed since the last call.
  void RoundAverages();

  // By name, the buffers that the program writes: running statistics.
  const std::vector<std::string>& written_buffers() const { return written_names_; }
  const Optimizer& optimizer() const { return optimizer_; }

  // Optimizer::ExportState.
  TensorMap ExportOptimizer(TensorMap& room) const { return optimizer_.ExportState(room); }
  // Sets the masters from `model`, which has them all, and the optimizer's state. INVALID_ARGUMENT as
  // Optimizer::ImportState.
  absl::Status Import(const TensorMap& model, const TensorMap& optimizer, int64_t applied_steps);

 private:
  // A parameter by its index, in the order of the backward pass.
  struct Reader {
    size_t parameter = 0;
    std::string module;
  };
  struct WrittenBuffer {
    at::Tensor buffer;
    at::Tensor kept;  // as it was before Compute
  };

  void FindBackwardOrder(const graph::Graph& source);
  void DropGradients();
  void SeedRandomOps(const StepConditions& step, size_t micro_batch, size_t num_micro_batches) const;
  at::Tensor ShareOf(const at::Tensor& number, const Batch& batch) const;
  void Forward(const Batch& batch);
  void ForwardBackward(const Batch& batch, bool is_recorded, executor::RunObserver* observer);
  PhaseSamples ForwardBackwardSampled(const Batch& batch, const StepConditions& step);
  std::string FindBackwardFault(const Batch& batch, bool is_recorded);
  void GatherGradients(bool accumulate);
  std::vector<GradientSample> SampleGradients(bool of_every_format) const;
  void KeepBuffers();
  void RollBackBuffers();

  const Setup setup_;
  const std::vector<std::string> written_names_;
  const std::map<std::string, int64_t> batches_counted_;
  const bool is_random_;
  const std::unique_ptr<executor::Executor> program_;
  const std::vector<Parameter> parameters_;
  StepKernels& kernels_;
  Optimizer optimizer_;
  std::vector<Reader> backward_order_;
  std::vector<WrittenBuffer> written_;
  const StepScalars* scalars_ = nullptr;
  size_t number_ = 0;
  int64_t applied_steps_ = 0;
  std::vector<at::Tensor> gradients_;        // beside parameters_
  std::vector<at::Tensor> average_weights_;  // beside parameters_: what the evaluation reads; empty without averages
  bool averages_rounded_ = false;
};

}  // namespace ampd::amp
