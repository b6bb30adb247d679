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
#include "worker/amp/step/pixel_map.h"
#include "worker/amp/step/step_graph.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/amp/step/step_scalars.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

// Samples for one forward and backward pass, on the CPU; the engine copies them to its device.
struct Batch {
  // The model's first input: (B, ...) float, or tokens of a text, (B, T) int64. Undefined if `others` holds it. Images
  // may be bytes (uint8) if the engine has scales for them (EngineOptions::pixel_scales).
  at::Tensor images;
  at::Tensor labels;      // (B) int64, or (B, T) for a language model; as the model's head reads them.
  TensorMap others = {};  // The other inputs by name, each (B, ...).
  // The batch's weight in its step, an fp64 scalar: its share of all labels. The engine sets it; undefined: 1.
  at::Tensor share = {};
};

// The number of samples in a batch. REQUIRES: the batch has images or another input.
int64_t NumSamples(const Batch& batch);

// The program's inputs from the batch, in order. If an input is a mask of numbers and the batch has a bool mask, the
// mask is converted. If the images are bytes, `pixels` converts them. Throws c10::Error for an input that the batch
// lacks. REQUIRES: `pixels` is defined if the images are bytes.
std::vector<at::Tensor> InputsOf(const graph::Graph& program, const Batch& batch, c10::Device device,
                                 const PixelMap* pixels = nullptr);

// One loss of a model, the parameters that it trains and their optimizer.
struct PhaseOptions {
  std::string name;              // Unique among the phases of a step.
  std::string loss;              // An output of the model; empty: the loss of its head.
  std::string parameters = "*";  // Glob on parameter names.
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::optional<double> clip_grad_norm;  // Limit on the global L2 norm of the phase's gradients, after unscaling.
};

// The result of one phase of a step.
struct PhaseResult {
  std::string phase;
  float loss = 0;       // Mean over the labels of all micro-batches, unscaled.
  float grad_norm = 0;  // After unscaling, before clipping; not finite on an overflow.
  double learning_rate = 0;
  bool skipped = false;  // Nothing was updated.
  // The next five fields describe an overflow. The first three describe one parameter whose gradient has non-finite
  // elements, namely the first in the order of the backward pass: its name, the module that reads it, and the number
  // of these elements. The last two count, over all parameters, the non-finite elements and the parameters that have
  // any. If the loss is finite, the overflow began at the first parameter; otherwise it began in the forward pass or
  // in the data.
  std::string overflow_parameter;
  std::string overflow_module;
  int64_t overflow_count = 0;
  int64_t total_overflow_count = 0;
  int num_overflow_parameters = 0;
  // Set if the step was sampled. The samples come from the first micro-batch that has labels.
  std::vector<GradientSample> samples;              // Samples of the phase's gradients.
  bool sampled_activations = false;                 // Whether the phase's forward pass was sampled.
  std::optional<ActivationFault> activation_fault;  // The fault found in that forward pass.
};

// The samples of gradients and activations that a phase (the training of one loss) took in one step.
struct PhaseSamples {
  std::vector<GradientSample> gradients;
  bool has_activations = false;
  std::optional<ActivationFault> activation_fault;
};

// A part of the engine's step: the program of one loss, and the parameters, gradients, optimizer and schedule that
// belong to it. A phase computes gradients only for its own parameters; the other parameters are constants of its
// program. It counts the steps that it applied itself, and its schedule depends on this count. Single-threaded; owner:
// the engine.
class Phase {
 public:
  struct Setup {
    PhaseOptions options;
    uint64_t seed = 0;         // Seeds dropout's random numbers.
    bool sums_in_fp32 = true;  // Sums gradients over micro-batches in fp32; if false, in the leaves' format.
    c10::Device device = c10::Device(c10::DeviceType::CPU);
    const PixelMap* pixels = nullptr;  // Converts images that are bytes. Outlives the phase.
  };
  // Settings that all phases of a step share.
  struct StepConditions {
    uint64_t random_stream = 0;
    bool samples = false;               // Sample activations, and gradients that were rounded to fp16.
    bool samples_every_format = false;  // Also sample gradients of all other formats.
    // For each micro-batch: whether it has no labels while others do. Such a micro-batch runs the forward pass only.
    // The list is empty if there is no such micro-batch.
    std::vector<bool> counts_nothing = {};
    // If set, the step is recorded. In the phase with index p, micro-batch i of n uses the recorder's seed number p * n
    // + i.
    StepGraph* recorder = nullptr;
  };

  // `source` is the graph from which the precision pass made `program`. The phase uses `source` to find which module
  // reads a parameter, because in `program` the module may read a cast of the parameter. REQUIRES: `kernels` outlives
  // the phase; `parameters` are parameters of the program.
  Phase(Setup setup, const graph::Graph& source, std::unique_ptr<executor::Executor> program,
        std::vector<Parameter> parameters, StepKernels& kernels);
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  // Binds buffers and the other phases' parameters from `state`; they must not require gradients. Errors: those of
  // Executor::Bind (reason BAD_STATE).
  absl::Status Bind(TensorMap state);

  // Sets the scalars that the phase reads and writes: those that `scalars` holds for the phase with index `number`.
  // Call before the first step. REQUIRES: `scalars` outlives the phase.
  void Use(const StepScalars& scalars, size_t number);
  // Whether any gradient of the phase was rounded to fp16. If no phase has such gradients, steps are sampled only on
  // request.
  bool has_samples() const;
  // The rule by which the device makes this phase's decisions: skip or update, and with which factors.
  kernels::PhaseRule rule() const;

  // For each batch counter, by name: how much one micro-batch adds to it.
  const std::map<std::string, int64_t>& batches_counted() const { return batches_counted_; }

  // Whether the program has random ops.
  bool is_random() const { return is_random_; }
  // The seed with which the random ops of a micro-batch start.
  uint64_t SeedOf(uint64_t random_stream, size_t micro_batch) const;

  // Host-side bookkeeping at the start of every step, whether it is run or replayed.
  void BeginStep() { averages_rounded_ = false; }
  // Runs forward and scaled backward over the micro-batches, then the pre-pass, which reads the gradients once and
  // leaves their norm and non-finite counts on the device. Writes no parameter. First drops the gradients that an
  // interrupted step left, and copies the buffers that the phase's program will write, so that Finish can restore them.
  // Waits for the device only if gradients or activations are sampled; returns the samples.
  PhaseSamples Compute(const std::vector<Batch>& micro_batches, const StepConditions& step);
  // Does the work of Engine::FindActivationFault for this phase.
  std::optional<ActivationFault> FindActivationFault(const std::vector<Batch>& micro_batches, uint64_t random_stream);
  // Completes what Compute began, after the decision: updates the parameters, or, if the step is skipped, restores the
  // buffers from before Compute. Does not wait.
  void Finish();
  // Returns the phase's result of a step from the step's record, and counts the step. Call in the order of the steps.
  PhaseResult Conclude(const StepRecord& record);

  const std::string& name() const { return setup_.options.name; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // The number of steps that this phase applied, up to the last step passed to Conclude.
  int64_t applied_steps() const { return applied_steps_; }

  // The tensors that an evaluation reads, by the names of the parameters: the average if the optimizer keeps averages,
  // otherwise the leaf. Every call returns the same tensors.
  TensorMap EvaluationWeights();
  // Rounds the averages into the leaves' format, if a step has begun since the last call.
  void RoundAverages();

  // Names of the buffers that the program writes: running statistics.
  const std::vector<std::string>& written_buffers() const { return written_names_; }
  const Optimizer& optimizer() const { return optimizer_; }

  // Returns Optimizer::ExportState of the phase's optimizer.
  TensorMap ExportOptimizer(TensorMap& reuse) const { return optimizer_.ExportState(reuse); }
  // Sets the masters from `model`, which must have all of them, and the optimizer's state. Errors: those of
  // Optimizer::ImportState (INVALID_ARGUMENT).
  absl::Status Import(const TensorMap& model, const TensorMap& optimizer, int64_t applied_steps);

 private:
  // A parameter, by its index, and the module that reads it. Listed in the order of the backward pass.
  struct Reader {
    size_t parameter = 0;
    std::string module;
  };
  void FindBackwardOrder(const graph::Graph& source);
  void DropGradients();
  void SeedRandomOps(const StepConditions& step, size_t micro_batch, size_t num_micro_batches) const;
  at::Tensor ShareOf(const at::Tensor& number, const Batch& batch) const;
  void Forward(const Batch& batch);
  void ForwardBackward(const Batch& batch, bool is_recorded, executor::RunObserver* observer);
  PhaseSamples ForwardBackwardSampled(const Batch& batch, const StepConditions& step);
  std::string FindBackwardFault(const Batch& batch, bool is_recorded);
  std::vector<at::Tensor> InputsOf(const Batch& batch) const;
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
  // The program writes some buffers. `kept_` lists the copies that save these buffers before the program runs, and
  // `restored_` the copies that restore them.
  std::vector<TensorCopy> kept_;
  std::vector<TensorCopy> restored_;
  const StepScalars* scalars_ = nullptr;
  size_t number_ = 0;
  int64_t applied_steps_ = 0;
  std::vector<at::Tensor> gradients_;        // In the order of parameters_.
  std::vector<at::Tensor> average_weights_;  // In the order of parameters_, for evaluation; empty without averages.
  bool averages_rounded_ = false;
};

}  // namespace ampd::amp
