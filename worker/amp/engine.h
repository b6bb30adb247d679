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
  std::optional<double> clip_grad_norm;  // global L2 norm, after unscaling
  uint64_t seed = 0;                     // of the first weights
  // Modules that run again in the backward pass, as graph::WithCheckpointSegments takes them.
  std::vector<std::string> checkpoint_segments = {};
  // How often gradients that were rounded to fp16 are sampled, and the activations beside them; 0: only on request.
  int64_t sample_every_steps = 0;
  ComputeDevice device;
  // For a model with several losses: what a step goes through, in this order. Each has an optimizer, schedule and clip
  // of its own, instead of those above. Every parameter belongs to exactly one. Empty: one phase over all parameters,
  // with the loss of the model's head.
  std::vector<PhaseOptions> phases = {};
  // The model for evaluation, with the same state and head, where graph::EvalProgram would not do: an imported one.
  std::optional<graph::Graph> eval_model = {};
  // The part of the model that Generate runs: one input, one output, parameters and buffers of the model's.
  std::optional<graph::Graph> generator = {};
};

// What one step did. Of several phases: what the first with an overflow did, or else the first, with the samples of
// all and the first fault among them; `phases` has them all, in their order.
struct StepResult : PhaseResult {
  float loss_scale = 1;  // the one that multiplied this step's losses
  ScaleChange scale_change = ScaleChange::kNone;
  std::vector<Fp8Finding> fp8;  // of the layers that compute in FP8, on the steps of their canary
  std::vector<PhaseResult> phases;
};

// Every bit that the next steps depend on, apart from the data: fp32 tensors on the CPU by their Python names, and
// scalars.
struct EngineState {
  TensorMap model;      // masters and buffers, and counts of batches (int64)
  TensorMap optimizer;  // moments and averages
  TensorMap fp8;        // scales and histories of layers that compute in FP8, and who no longer does
  LossScalerState scaler;
  int64_t applied_steps = 0;  // by all phases
  int64_t skipped_steps = 0;  // by one or more
  // Of several phases, how many steps each has applied, by its name; empty for one.
  std::map<std::string, int64_t> applied_by_phase;
};

// Trains one model under one precision policy on one device: the step of design 6.4, of which the host reads nothing
// between its loss and its update, and the rest when it likes.
//
//   forward -> scaled loss -> backward            for each micro-batch, gradients summed in fp32
//   pre-pass: norm and non-finite count           one read of the gradients
//   decision: skip, unscale x clip, rate          on the device (kernels::StepControl)
//   update: unscale x clip x optimizer x cast     skipped when a gradient is not finite
//   tail: loss scale                              on the device
//   record                                        sent to the host, read by Take
//
// On a GPU all this is work in one stream: Enqueue returns before it is done, and may be called again. Where the device
// has step graphs, it is recorded and replayed (captured_step.h), with the same bits; not the steps that sample
// gradients or activations, nor those of FP8's canary. When the canary demotes a layer, steps are recorded anew.
//
// A skipped step changes nothing but the loss scale and the counts of batches: not the weights, moments, running
// statistics, schedule or count of applied steps. A norm counts every batch that it has seen in training, one more a
// micro-batch and run, whatever came of it, as PyTorch's does. The host counts: no step writes a tensor for it.
//
// A model with several losses (a GAN) takes a step in phases, one a loss and its optimizer, under one loss scale. It
// does not change within a step: the scale that multiplied the first loss multiplies the others too, and one update
// follows the last phase, which backs off when any was skipped. Of the policy's two rules
//   EACH_ALONE     phases run and update one after the other, so that a later one sees what an earlier one updated: the
//                  usual loop of a GAN under torch.amp.GradScaler. Only the phase with the overflow is skipped.
//   ALL_TOGETHER   all phases run on the weights of before the step, and only then all update or none, as under Apex:
//                  nothing can be taken back once it is updated.
// A skipped phase leaves nothing behind either: what its run wrote into running statistics is undone, whichever
// module's they are, for what made the gradients overflow may have gone into them. What other phases wrote stays.
//
// Errors of LibTorch leave it as c10::Error. On a GPU the policy sets LibTorch's fp32 products to ieee or tf32, for the
// whole process. Single-threaded: owner is the trainer's step loop.
class Engine {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED as the passes and the executor say; INVALID_ARGUMENT (reason BAD_PHASES) when a
  // parameter belongs to no phase or to two, a phase has none, or two have one name. `model` has a head
  // (graph/heads.h), or the losses that the phases name.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const graph::Graph& model,
                                                        const precision::ResolvedPolicy& policy,
                                                        const EngineOptions& options);
  ~Engine();

  // Begins one optimizer step over the micro-batches, behind those that were begun before. Each weighs what it counts
  // (label_counter.h), so that loss and gradients are those of one batch with all their samples: a micro-batch that
  // counts nothing beside others that do runs forward only, and where none counts anything all weigh alike. The random
  // numbers of dropout depend on the seed, `random_stream` and the micro-batch's place alone, so that a batch can be
  // run again as it was. REQUIRES: at least one; num_pending() is at most max_pending().
  void Enqueue(const std::vector<Batch>& micro_batches, uint64_t random_stream = 0);
  // What the first step did that was begun and not taken, once it is through. REQUIRES: there is one.
  StepResult Take();
  int num_pending() const { return static_cast<int>(pending_.size()); }
  // How many pending steps another may be begun behind: none behind one of FP8's canary, which may demote layers.
  int max_pending() const;
  // Whether a step was recorded, and why none can be although the device has step graphs; empty where nothing went
  // wrong.
  bool replays() const { return captured_ && captured_->captured(); }
  std::string graph_failure() const { return captured_ ? captured_->failure() : ""; }
  // Both. REQUIRES: nothing is pending.
  StepResult Step(const std::vector<Batch>& micro_batches, uint64_t random_stream = 0);

  // Runs the evaluation program under the same policy, on the parameters' averages where the optimizer keeps them.
  // Changes nothing; a recorded step gives way where there is no memory beside it. REQUIRES: the model has a head.
  EvalSums Evaluate(const Batch& batch);
  // The generator's output for `input`, in fp32 on the CPU: its evaluation program, run as Evaluate runs its own. Draws
  // no random numbers. REQUIRES: the options have a generator.
  at::Tensor Generate(const at::Tensor& input);

  // As of the last step that was taken. What is set takes effect with the next step. REQUIRES to set it, as to set the
  // factor, export or import a state: nothing is pending.
  LossScaler& scaler() { return scaler_; }
  // The next step samples its gradients in whatever format, and its activations.
  void SampleNextStep() { samples_next_step_ = true; }
  // What goes wrong in the forward pass of a step on these micro-batches, run again on the weights that there are:
  // dropout draws what it did. Nothing where there is no memory to look. Changes nothing.
  std::optional<ActivationFault> FindActivationFault(const std::vector<Batch>& micro_batches, uint64_t random_stream);
  // What the schedule's rates are multiplied by besides, from the next step on; no part of the exported state.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  // Of the steps that were taken.
  int64_t applied_steps() const { return applied_steps_; }
  int64_t skipped_steps() const { return skipped_steps_; }

  // What of the state is not finite, parameters first; nothing: all is. REQUIRES: nothing is pending.
  std::optional<NonFinite> FindNonFinite() const;

  // Copies; what a later step does leaves them alone. They lie in the memory of an earlier state, `room`, as far as
  // that has such tensors.
  EngineState ExportState(EngineState room = {}) const;
  // INVALID_ARGUMENT (reason BAD_STATE) when the state is of another model or optimizer; the engine is unusable then.
  // A count of batches that the state lacks, as one from before they were kept, begins at 0.
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
  // Where a step that looks at nothing besides is recorded or replayed; null where it is not.
  CapturedStep* CaptureFor(const Phase::StepConditions& step);
  absl::Status MakePrograms(const graph::Graph& model, const precision::ResolvedPolicy& policy);
  // A program that trains nothing. A recorded step gives way where there is no memory beside it.
  std::vector<at::Tensor> RunBeside(executor::Executor& program, const Batch& batch);
  std::vector<uint64_t> SeedsOf(uint64_t random_stream, size_t num_micro_batches) const;
  std::vector<PhaseSamples> RunStep(const std::vector<Batch>& micro_batches, const Phase::StepConditions& step);
  absl::Status CheckState(const EngineState& state) const;
  void ExportCounts(TensorMap& model) const;
  void ImportCounts(const TensorMap& model);

  const EngineOptions options_;
  const bool skips_together_;
  LossScaler scaler_;
  std::unique_ptr<Programs> programs_;
  std::unique_ptr<StepKernels> kernels_;
  TensorMap buffers_;
  std::map<std::string, int64_t> batches_before_;  // by counter, those of before the imported state
  int64_t num_micro_batches_ = 0;                  // since then
  std::vector<std::unique_ptr<Phase>> phases_;
  std::unique_ptr<StepScalars> scalars_;
  std::unique_ptr<CapturedStep> captured_;  // null where steps are not recorded
  int64_t captured_fp8_changes_ = 0;        // those that it knows of
  // What `scalars_` were last known to hold; nothing: they must be loaded.
  std::optional<LossScalerState> known_scaler_;
  double known_rate_factor_ = 1;
  std::deque<std::vector<PhaseSamples>> pending_;  // by step and phase
  bool samples_next_step_ = false;
  double rate_factor_ = 1;
  int64_t applied_steps_ = 0;
  int64_t skipped_steps_ = 0;
};

}  // namespace ampd::amp
