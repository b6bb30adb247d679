#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "precision/policy.h"
#include "worker/amp/captured_step.h"
#include "worker/amp/eval_sums.h"
#include "worker/amp/finite_state.h"
#include "worker/amp/fp8/fp8_layers.h"
#include "worker/amp/loss_scaler.h"
#include "worker/amp/optimizer.h"
#include "worker/amp/phase.h"
#include "worker/amp/schedule.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/amp/step/step_scalars.h"

namespace ampd::amp {

struct EngineOptions {
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::optional<double> clip_grad_norm;  // Limit on the global L2 norm, after unscaling.
  uint64_t seed = 0;                     // Seeds the initial weights and the random numbers.
  // Modules that are computed again in the backward pass, in the form that graph::WithCheckpointSegments accepts.
  std::vector<std::string> checkpoint_segments = {};
  // How often a step samples its activations and those gradients that were rounded to fp16: once in this many steps.
  // 0: only on request. A step that samples runs op by op. If there is too little memory to run it while the recorded
  // step keeps its memory, the recording is dropped and must be made again. From then on, this engine samples ten
  // times less often.
  int64_t sample_every_steps = 0;
  ComputeDevice device;
  // The phases of a step, in order, for a model with several losses. Each phase has its own optimizer, schedule and
  // clip, which replace the fields above. Every parameter belongs to exactly one phase. If the list is empty, there is
  // one phase over all parameters, with the loss of the model's head.
  std::vector<PhaseOptions> phases = {};
  // The model's evaluation program, with the same state and head as the training model. It runs as it is. Only set for
  // an imported model; for any other model, graph::EvalProgram derives the evaluation program from the training model.
  std::optional<graph::Graph> eval_model = {};
  // The part of the model that Generate runs: one input, one output, and parameters and buffers of the model.
  std::optional<graph::Graph> generator = {};
  // Set if images of batches may be bytes: the mean and the deviation of each channel, by which the device converts
  // them (PixelMap). REQUIRES: the model does not compute its loss itself (graph::Head::kOwnLoss).
  at::Tensor pixel_scales = {};
  // Whether the engine predicts: Predict may then be called, and Evaluate may not. REQUIRES: the head predicts
  // (graph::WithPredictions).
  bool predicts = false;
};

// An output of Engine::Predict.
struct Prediction {
  std::string name;   // The name of an output of graph::WithPredictions.
  at::Tensor values;  // (B, ...), on the CPU, contiguous: float32, int64 or bool.
};

// The result of one step. With several phases, `phases` has the result of each, in order. The inherited fields then
// describe the first phase with an overflow, or the first phase if none has one. Two inherited fields are exceptions:
// `samples` has the samples of all phases, and `activation_fault` is the first fault that any phase found.
struct StepResult : PhaseResult {
  float loss_scale = 1;  // The scale that multiplied this step's losses.
  ScaleChange scale_change = ScaleChange::kNone;
  std::vector<Fp8Finding> fp8;  // One per layer that computes in FP8; empty unless this was a canary step.
  std::vector<PhaseResult> phases;
};

// The state of training. Together with the data it determines all later steps, bit for bit. Tensors are in fp32 on the
// CPU, by their Python names.
struct EngineState {
  TensorMap model;      // Masters, buffers, and counts of batches (int64).
  TensorMap optimizer;  // Moments and averages.
  TensorMap fp8;        // Scales and histories of layers that compute in FP8, and which layers were demoted.
  LossScalerState scaler;
  int64_t applied_steps = 0;  // Steps that all phases applied.
  int64_t skipped_steps = 0;  // Steps that at least one phase skipped.
  // For each phase, by name, the number of steps that it applied. Empty for a single phase.
  std::map<std::string, int64_t> applied_by_phase;
};

// Trains one model under one precision policy on one device. The host reads nothing between a step's loss and its
// update; it may read the step's results later.
//
//   forward -> scaled loss -> backward            for each micro-batch, gradients summed in fp32
//   pre-pass: norm and non-finite count           one read of the gradients
//   decision: skip, unscale x clip, rate          on the device (kernels::StepControl)
//   update: unscale x clip x optimizer x cast     skipped when a gradient is not finite
//   tail: loss scale                              on the device
//   record                                        sent to the host, read by AwaitStep
//
// On a GPU all of this is work in one stream: Enqueue returns before the work is done, and may be called again. If the
// device has step graphs, steps are recorded and replayed (captured_step.h), with the same bits. Three kinds of steps
// run directly: those that sample gradients or activations, those with a micro-batch that has no labels while others
// have some, and FP8's canary steps, which compare FP8 products with the same products in the compute format. When a
// canary step demotes a layer to a wider format, steps are recorded again.
//
// A skipped step changes only the loss scale and the counts of batches. Weights, moments, running statistics, schedule
// and the count of applied steps stay. As in PyTorch, a batch norm counts every batch that it has seen in training: one
// each time that the norm is computed on a micro-batch, whether or not the step is skipped. The host counts, so no step
// writes a tensor for it.
//
// A model with several losses (a GAN) takes a step in phases, one per loss and optimizer, under one loss scale. The
// scale does not change within a step: it multiplies the losses of all phases, and is updated once after the last
// phase, backing off if any phase was skipped. The policy chooses between two rules:
//   EACH_ALONE     Phases run and update one after the other, so that a later one sees an earlier one's update, as
//                  in the usual GAN loop under torch.amp.GradScaler. Only the phase with the overflow is skipped.
//   ALL_TOGETHER   All phases run on the weights from before the step; then either all update or none, as under Apex.
//                  No update ever has to be undone.
// A skipped phase also restores all running statistics that its run changed, because the values that made the gradients
// overflow may have entered them. Changes by other phases stay.
//
// LibTorch's errors are thrown as c10::Error. On a GPU the policy sets LibTorch's fp32 products to ieee or tf32 for the
// whole process. Single-threaded; owner: the trainer's step loop.
class Engine {
 public:
  // Returns INVALID_ARGUMENT or UNIMPLEMENTED from the graph passes and the executor, and INVALID_ARGUMENT (reason
  // BAD_PHASES) if a parameter belongs to no phase or to two, a phase has no parameter, or two phases share a name.
  // REQUIRES: `model` has a head (graph/heads.h), or the losses that the phases name.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const graph::Graph& model,
                                                        const precision::ResolvedPolicy& policy,
                                                        const EngineOptions& options);
  ~Engine();

  // Begins one optimizer step over the micro-batches, after the steps already enqueued. Each micro-batch is weighted
  // by its number of labels (label_counter.h), so that loss and gradients equal those of one batch with all samples.
  // If no micro-batch has labels, all have equal weight. If only some have labels, the others run the forward pass
  // only. The random numbers of dropout depend only on the seed, `random_stream` and the micro-batch's index, so that
  // a batch can be run again with the same numbers. REQUIRES: at least one micro-batch; num_pending() is at most
  // max_pending().
  void Enqueue(const std::vector<Batch>& micro_batches, uint64_t random_stream = 0);
  // Waits for the oldest pending step and returns its result. REQUIRES: a step is pending.
  StepResult AwaitStep();
  int num_pending() const { return static_cast<int>(pending_.size()); }
  // The largest number of pending steps at which Enqueue may be called: 1, or 0 after an FP8 canary step, which may
  // demote layers to a wider format.
  int max_pending() const;
  // Whether steps are replayed: one is recorded and ready.
  bool replays() const { return captured_ && captured_->captured(); }
  // Why steps can't be recorded although the device has step graphs; empty if nothing failed.
  std::string graph_failure() const { return captured_ ? captured_->failure() : ""; }
  // The memory that a recorded step keeps between its replays.
  int64_t graph_bytes() const { return captured_ ? captured_->own_bytes() : 0; }
  // Calls Enqueue, then AwaitStep. REQUIRES: no step is pending.
  StepResult Step(const std::vector<Batch>& micro_batches, uint64_t random_stream = 0);

  // Runs the evaluation program under the policy of training, on the parameters' averages if the optimizer keeps them.
  // Does not change the state of training. If a recorded step leaves too little memory for the evaluation, the
  // recording is dropped. `place`: the number of the batch in the evaluation. If the program of an imported model draws
  // random numbers in evaluation, they depend only on the seed and `place`. REQUIRES: the model has a head, and the
  // options do not have `predicts`.
  EvalSums Evaluate(const Batch& batch, uint64_t place = 0);
  // Runs the program of graph::WithPredictions, in the same way as Evaluate, and returns its outputs in order. Reads no
  // labels. REQUIRES: the options have `predicts`.
  std::vector<Prediction> Predict(const Batch& batch, uint64_t place = 0);
  // Runs the generator's evaluation program on `input`, in the same way as Evaluate, and returns its output in fp32 on
  // the CPU. Draws no random numbers. REQUIRES: the options have a generator.
  at::Tensor Generate(const at::Tensor& input);

  // The host's copy of the loss scaler, after the last step that AwaitStep returned. Changes take effect with the next
  // step. REQUIRES: no step is pending when the scaler or the rate factor is set, or a state is exported or imported.
  LossScaler& scaler() { return scaler_; }
  // Makes the next step sample its activations and, whatever format they were rounded to, its gradients.
  void SampleNextStep() { samples_next_step_ = true; }
  // Finds the first fault in the forward pass of a step: runs it again on these micro-batches, with the current weights
  // and the same dropout. Returns nothing if there is no fault, or too little memory for the run. Changes no state.
  std::optional<ActivationFault> FindActivationFault(const std::vector<Batch>& micro_batches, uint64_t random_stream);
  // Multiplies the schedule's learning rates by `factor`, from the next step on. The factor is not part of the exported
  // state.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  // The numbers of steps that were applied and skipped, up to the last one that AwaitStep returned.
  int64_t applied_steps() const { return applied_steps_; }
  int64_t skipped_steps() const { return skipped_steps_; }

  // Returns the first state tensor that is not finite, parameters first; nothing if all are finite. REQUIRES: no step
  // is pending.
  std::optional<NonFinite> FindNonFinite() const;

  // Returns a copy of the state, which later steps do not change. Writes into the tensors of `reuse`, an earlier state,
  // where shape and format match, instead of allocating memory.
  EngineState ExportState(EngineState reuse = {}) const;
  // Returns INVALID_ARGUMENT (reason BAD_STATE) if the state belongs to another model or optimizer; the engine is
  // unusable then. If the state is older and lacks a count of batches, that count starts at 0.
  absl::Status ImportState(const EngineState& state);

 private:
  struct Programs;

  Engine(const EngineOptions& options, const precision::ResolvedPolicy& policy);

  absl::Status MakePhases(const graph::Graph& model, const precision::ResolvedPolicy& policy);
  void MakeParameters(const graph::Graph& model, const precision::ResolvedPolicy& policy,
                      const std::vector<size_t>& phase_of, std::vector<std::vector<Parameter>>& parameters);
  absl::Status Bind();
  void MakeScalars();
  void LoadScalars();
  // The recorder for this step; null if the step must run directly, for example because it samples.
  CapturedStep* CaptureFor(const Phase::StepConditions& step);
  absl::Status MakePrograms(const graph::Graph& model, const precision::ResolvedPolicy& policy);
  // Runs a program that trains nothing, on the batch number `place`. Drops a recorded step if there is too little
  // memory beside it.
  std::vector<at::Tensor> RunInference(executor::Executor& program, const Batch& batch, uint64_t place = 0);
  std::vector<uint64_t> SeedsOf(uint64_t random_stream, size_t num_micro_batches) const;
  std::vector<PhaseSamples> RunStep(const std::vector<Batch>& micro_batches, const Phase::StepConditions& step);
  absl::Status CheckState(const EngineState& state) const;
  void ExportCounts(TensorMap& model) const;
  void ImportCounts(const TensorMap& model);

  const EngineOptions options_;
  const bool skips_together_;
  LossScaler scaler_;
  const PixelMap pixels_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<StepKernels> kernels_;
  TensorMap buffers_;
  std::map<std::string, int64_t> batches_before_;  // For each batch counter: its count in the imported state, or 0.
  int64_t num_micro_batches_ = 0;                  // Micro-batches run since the import.
  std::vector<std::unique_ptr<Phase>> phases_;
  std::unique_ptr<StepScalars> scalars_;
  std::unique_ptr<CapturedStep> captured_;  // Null if steps are not recorded.
  int64_t captured_fp8_changes_ = 0;        // Fp8Layers::num_changes() of the recorded step.
  // The scaler state that the device's scalars are known to hold. Empty if the next step must load them first.
  std::optional<LossScalerState> known_scaler_;
  double known_rate_factor_ = 1;
  std::deque<std::vector<PhaseSamples>> pending_;  // Samples of each pending step, by phase.
  bool samples_next_step_ = false;
  int64_t sample_factor_ = 1;  // By how much sampled steps are rarer than the options say.
  double rate_factor_ = 1;
  int64_t applied_steps_ = 0;
  int64_t skipped_steps_ = 0;
};

}  // namespace ampd::amp
