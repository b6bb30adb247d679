#include "worker/amp/engine.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/random.h"
#include "base/status_macros.h"
#include "c10/util/Exception.h"
#include "graph/heads.h"
#include "graph/passes.h"
#include "graph/segments.h"
#include "precision/pass.h"
#include "worker/amp/engine_programs.h"
#include "worker/amp/fp8/fp8_linear.h"
#include "worker/amp/ops/attention.h"
#include "worker/amp/ops/batch_norm.h"
#include "worker/amp/ops/cross_entropy.h"
#include "worker/amp/ops/layer_norm.h"
#include "worker/amp/ops/linear.h"
#include "worker/amp/ops/linear_cross_entropy.h"
#include "worker/amp/ops/upcast_matmul.h"
#include "worker/amp/phase_ownership.h"
#include "worker/amp/step/cuda_math.h"
#include "worker/amp/step/format.h"
#include "worker/executor/dtype.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"

namespace ampd::amp {
namespace {

using executor::Executor;

absl::StatusOr<std::unique_ptr<Executor>> Prepare(const graph::Graph& graph, const precision::ResolvedPolicy& policy,
                                                  const std::vector<std::string>& checkpoint_segments,
                                                  const executor::OpRegistry& registry) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph converted, precision::ApplyPrecision(graph, policy));
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program,
                        graph::WithCheckpointSegments(graph::WithoutDeadNodes(converted), checkpoint_segments));
  return Executor::Create(WithRegisteredBatchNorms(WithRegisteredAttention(program, registry), registry), registry);
}

// The policy's row for a parameter or buffer; nothing if the policy does not name it.
template <typename Row>
std::optional<Row> FindRow(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) {
      return row;
    }
  }
  return std::nullopt;
}

std::vector<PhaseOptions> PhasesOf(const EngineOptions& options) {
  if (!options.phases.empty()) {
    return options.phases;
  }
  PhaseOptions whole;
  whole.optimizer = options.optimizer;
  whole.schedule = options.schedule;
  whole.clip_grad_norm = options.clip_grad_norm;
  return {whole};
}

absl::StatusOr<graph::Graph> TrainingProgram(const graph::Graph& model, const std::string& loss) {
  return loss.empty() ? graph::WithLossHead(model) : graph::LossProgram(model, loss);
}

// Returns the seed of a phase's random numbers. The first, or only, phase has the engine's seed.
uint64_t SeedOfPhase(uint64_t seed, size_t phase) { return phase == 0 ? seed : SeededRandom(seed + phase).Next(); }

// A step that samples its gradients or activations runs directly and needs additional memory. If the recorded step had
// to be dropped to make room for such a step, later steps sample this many times less often.
constexpr int64_t kRarer = 10;

}  // namespace

Engine::Engine(const EngineOptions& options, const precision::ResolvedPolicy& policy)
    : options_(options),
      skips_together_(policy.loss_scale.optimizer_skip == precision::LossScaleConfig::OptimizerSkip::kAllTogether),
      scaler_(policy.loss_scale),
      pixels_(options.pixel_scales, options.device),
      programs_(std::make_unique<Programs>()),
      kernels_(StepKernels::Make(options.device)) {}

Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const graph::Graph& model,
                                                       const precision::ResolvedPolicy& policy,
                                                       const EngineOptions& options) {
  auto engine = std::unique_ptr<Engine>(new Engine(options, policy));
  if (options.device.device.is_cuda()) {
    UseCudaMath(policy);
  } else {
    RegisterAttention(engine->programs_->registry);
  }
  RegisterBatchNorm(engine->programs_->registry, options.device);
  RegisterCrossEntropy(engine->programs_->registry, options.device);
  RegisterLinear(engine->programs_->registry, options.device);
  RegisterLinearCrossEntropy(engine->programs_->registry, options.device);
  RegisterUpcastMatmul(engine->programs_->registry);
  std::function<at::Tensor()> amax_cell;
  if (!policy.fp8_layers.empty()) {
    const auto fp8 = c10::make_intrusive<Fp8Layers>(*policy.fp8, policy.fp8_layers, options.device);
    engine->programs_->fp8 = fp8;
    RegisterFp8Linear(engine->programs_->registry, fp8);
    amax_cell = [fp8] { return fp8->AmaxCell(); };
  }
  RegisterLayerNorm(engine->programs_->registry, options.device, amax_cell);
  AMPD_RETURN_IF_ERROR(engine->MakePhases(model, policy));
  engine->MakeScalars();
  AMPD_RETURN_IF_ERROR(engine->MakePrograms(model, policy));
  AMPD_RETURN_IF_ERROR(engine->Bind());
  if (const ComputeDevice& device = options.device; device.graphs != nullptr) {
    engine->captured_ = std::make_unique<CapturedStep>(*device.graphs, *engine->kernels_, device.device);
  }
  return engine;
}

// Makes the programs that train nothing, for label counts, evaluation, prediction and generation.
absl::Status Engine::MakePrograms(const graph::Graph& model, const precision::ResolvedPolicy& policy) {
  const std::optional<graph::Head> head = graph::HeadOf(model);
  AMPD_ASSIGN_OR_RETURN(auto label_counter, LabelCounter::Create(model, head, programs_->registry));
  programs_->label_counter.emplace(std::move(label_counter));
  const graph::Graph evaluation = options_.eval_model.has_value() ? *options_.eval_model : graph::EvalProgram(model);
  if (options_.predicts) {
    AMPD_ASSIGN_OR_RETURN(const graph::Graph predictor, graph::WithPredictions(evaluation));
    AMPD_ASSIGN_OR_RETURN(programs_->predictor, Prepare(predictor, policy, {}, programs_->registry));
  } else if (head.has_value()) {
    const graph::Shape& shape = model.type(*model.FindOutput(graph::OutputNamesOf(*head).front())).shape;
    programs_->head = *head;
    programs_->num_classes = shape.empty() ? 0 : shape.back().factor();
    AMPD_ASSIGN_OR_RETURN(const graph::Graph eval, graph::WithEvalHead(evaluation));
    AMPD_ASSIGN_OR_RETURN(programs_->eval, Prepare(eval, policy, {}, programs_->registry));
  }
  if (options_.generator.has_value()) {
    const graph::Graph generator = graph::EvalProgram(*options_.generator);
    AMPD_ASSIGN_OR_RETURN(programs_->generator, Prepare(generator, policy, {}, programs_->registry));
  }
  return absl::OkStatus();
}

absl::Status Engine::MakePhases(const graph::Graph& model, const precision::ResolvedPolicy& policy) {
  const std::vector<PhaseOptions> phases = PhasesOf(options_);
  AMPD_ASSIGN_OR_RETURN(const std::vector<size_t> phase_of, PhasesOfParameters(model, phases));
  std::vector<std::vector<Parameter>> parameters(phases.size());
  MakeParameters(model, policy, phase_of, parameters);
  for (size_t i = 0; i < phases.size(); ++i) {
    AMPD_ASSIGN_OR_RETURN(const graph::Graph source, TrainingProgram(model, phases[i].loss));
    AMPD_ASSIGN_OR_RETURN(auto program, Prepare(source, policy, options_.checkpoint_segments, programs_->registry));
    Phase::Setup setup{.options = phases[i],
                       .seed = SeedOfPhase(options_.seed, i),
                       .sums_in_fp32 = policy.formats.accumulation == graph::Dtype::kFloat32,
                       .device = options_.device.device,
                       .pixels = &pixels_};
    setup.options.optimizer.moment_dtype = executor::ToScalarType(policy.formats.optimizer_state);
    setup.options.optimizer.rounding_seed = setup.seed;
    phases_.push_back(
        std::make_unique<Phase>(std::move(setup), source, std::move(program), std::move(parameters[i]), *kernels_));
  }
  return absl::OkStatus();
}

// Fills `parameters`, one list per phase, and the buffers.
void Engine::MakeParameters(const graph::Graph& model, const precision::ResolvedPolicy& policy,
                            const std::vector<size_t>& phase_of, std::vector<std::vector<Parameter>>& parameters) {
  const TensorMap initial = executor::InitialState(model, options_.seed);
  for (size_t i = 0; i < phase_of.size(); ++i) {
    const std::string& name = model.parameters()[i].name;
    const at::Tensor value = InTrainingLayout(initial.at(name).to(options_.device.device));
    const precision::ParameterRow row = FindRow(policy.parameters, name).value_or(precision::ParameterRow());
    Parameter parameter = MakeParameter(name, value, executor::ToScalarType(row.dtype), row.master, *kernels_);
    // Rules may give a parameter another format, and only bf16 is rounded stochastically.
    parameter.stochastic = policy.formats.stochastic_rounding && row.dtype == graph::Dtype::kBFloat16;
    parameter.gradient_format = executor::ToScalarType(row.gradient);
    parameter.leaf.requires_grad_(true);
    parameters[phase_of[i]].push_back(std::move(parameter));
  }
  for (const graph::State& state : model.buffers()) {
    const at::Tensor& buffer = initial.at(state.name);
    const auto row = FindRow(policy.buffers, state.name);
    buffers_[state.name] =
        buffer.to(options_.device.device, row.has_value() ? executor::ToScalarType(row->dtype) : buffer.scalar_type());
  }
  for (const graph::BatchCounter& counter : model.batch_counters()) {
    batches_before_[counter.name] = 0;
  }
}

absl::Status Engine::Bind() {
  AMPD_RETURN_IF_ERROR(programs_->label_counter->Bind(buffers_));
  TensorMap state = buffers_;
  std::vector<at::Tensor> leaves;
  for (const auto& phase : phases_) {
    for (const Parameter& parameter : phase->parameters()) {
      leaves.push_back(parameter.leaf.detach());
      state[parameter.name] = leaves.back();
    }
  }
  if (programs_->fp8) {
    programs_->fp8->SetParameters(leaves);
  }
  for (const auto& phase : phases_) {
    AMPD_RETURN_IF_ERROR(phase->Bind(state));
  }
  const std::vector<Executor*> inference = {programs_->eval.get(), programs_->predictor.get(),
                                            programs_->generator.get()};
  if (std::all_of(inference.begin(), inference.end(), [](const Executor* program) { return program == nullptr; })) {
    return absl::OkStatus();
  }
  for (const auto& phase : phases_) {
    for (const auto& [name, weights] : phase->EvaluationWeights()) {
      state[name] = weights;
    }
  }
  for (Executor* const program : inference) {
    AMPD_RETURN_IF_ERROR(program == nullptr ? absl::OkStatus() : program->Bind(state));
  }
  return absl::OkStatus();
}

void Engine::MakeScalars() {
  std::vector<kernels::PhaseRule> rules;
  std::vector<size_t> num_gradients;
  for (const auto& phase : phases_) {
    rules.push_back(phase->rule());
    num_gradients.push_back(phase->parameters().size());
  }
  scalars_ = std::make_unique<StepScalars>(options_.device, scaler_.rule(), rules, num_gradients);
  for (size_t i = 0; i < phases_.size(); ++i) {
    phases_[i]->Use(*scalars_, i);
  }
}

// Copies the scaler's state and the rate factor to the device's scalars, if either was set since the last step.
void Engine::LoadScalars() {
  if (!pending_.empty() || (known_scaler_ == scaler_.state() && known_rate_factor_ == rate_factor_)) {
    return;
  }
  std::vector<int64_t> applied;
  for (const auto& phase : phases_) {
    applied.push_back(phase->applied_steps());
  }
  scalars_->Load(scaler_.state(), rate_factor_, applied);
  known_scaler_ = scaler_.state();
  known_rate_factor_ = rate_factor_;
}

// Returns 0 while an FP8 canary step is pending, otherwise 1. canary() says whether the newest step is a canary step.
// While a canary step is pending, it is the newest one, because no further step begins before its result was read.
int Engine::max_pending() const { return !pending_.empty() && programs_->fp8 && programs_->fp8->canary() ? 0 : 1; }

void Engine::Enqueue(const std::vector<Batch>& micro_batches, uint64_t random_stream) {
  TORCH_CHECK(num_pending() <= max_pending(), "a step was begun before what it depends on was taken");
  LoadScalars();
  const bool was_asked = std::exchange(samples_next_step_, false);
  const int64_t num_steps = applied_steps_ + skipped_steps_ + num_pending();
  const bool is_due =
      options_.sample_every_steps > 0 && num_steps % (options_.sample_every_steps * sample_factor_) == 0 &&
      std::any_of(phases_.begin(), phases_.end(), [](const auto& phase) { return phase->has_samples(); });
  Phase::StepConditions step{
      .random_stream = random_stream, .samples = was_asked || is_due, .samples_every_format = was_asked};
  std::vector<Batch> weighed = micro_batches;
  step.counts_nothing = programs_->label_counter->Weigh(weighed);
  if (programs_->fp8) {
    programs_->fp8->BeginStep(num_steps);
  }
  for (const auto& phase : phases_) {
    phase->BeginStep();
  }
  std::vector<PhaseSamples> samples(phases_.size());
  if (CapturedStep* const captured = CaptureFor(step); captured != nullptr) {
    const auto run = [&](const std::vector<Batch>& batches, StepGraph* recorder) {
      Phase::StepConditions conditions = step;
      conditions.recorder = recorder;
      RunStep(batches, conditions);
    };
    captured->Run(weighed, SeedsOf(random_stream, micro_batches.size()), run);
  } else {
    if (captured_ != nullptr && captured_->MakeRoomFor(weighed) && is_due) {
      sample_factor_ = kRarer;
    }
    samples = RunStep(weighed, step);
  }
  scalars_->Send();
  num_micro_batches_ += static_cast<int64_t>(micro_batches.size());
  pending_.push_back(std::move(samples));
}

CapturedStep* Engine::CaptureFor(const Phase::StepConditions& step) {
  if (captured_ == nullptr || step.samples || !step.counts_nothing.empty()) {
    return nullptr;
  }
  if (const Fp8Layers* const fp8 = programs_->fp8.get(); fp8 != nullptr) {
    if (fp8->canary()) {
      return nullptr;
    }
    if (std::exchange(captured_fp8_changes_, fp8->num_changes()) != fp8->num_changes()) {
      captured_->Forget();
    }
  }
  return captured_.get();
}

// Returns one seed for each phase and micro-batch, or none if no program is random.
std::vector<uint64_t> Engine::SeedsOf(uint64_t random_stream, size_t num_micro_batches) const {
  std::vector<uint64_t> seeds;
  if (std::any_of(phases_.begin(), phases_.end(), [](const auto& phase) { return phase->is_random(); })) {
    for (const auto& phase : phases_) {
      for (size_t i = 0; i < num_micro_batches; ++i) {
        seeds.push_back(phase->SeedOf(random_stream, i));
      }
    }
  }
  return seeds;
}

// Does the step's work on the device, all of it in the current stream. Returns the samples of each phase.
std::vector<PhaseSamples> Engine::RunStep(const std::vector<Batch>& micro_batches, const Phase::StepConditions& step) {
  std::vector<PhaseSamples> samples;
  const kernels::StepControl& control = scalars_->control();
  for (size_t i = 0; i < phases_.size(); ++i) {
    {
      const Fp8PassScope scope(programs_->fp8.get());  // Ends before Finish, which changes weights.
      samples.push_back(phases_[i]->Compute(micro_batches, step));
    }
    if (!skips_together_) {
      kernels_->Decide(control, static_cast<int>(i), 1);
      phases_[i]->Finish();
    }
  }
  if (skips_together_) {
    kernels_->Decide(control, 0, control.num_phases);
    // Finishing restores the buffers of skipped phases. If several phases wrote a buffer, the first phase's saved copy
    // must be restored last, so the phases finish in reverse order.
    std::for_each(phases_.rbegin(), phases_.rend(), [](const auto& phase) { phase->Finish(); });
  }
  kernels_->EndStep(control);
  if (programs_->fp8) {
    programs_->fp8->EndStep(scalars_->any_skip());
  }
  return samples;
}

StepResult Engine::AwaitStep() {
  TORCH_CHECK(!pending_.empty(), "no step was begun");
  const StepRecord record = scalars_->AwaitStep();
  StepResult result;
  for (size_t i = 0; i < phases_.size(); ++i) {
    result.phases.push_back(phases_[i]->Conclude(record));
    PhaseSamples& samples = pending_.front()[i];
    result.phases.back().samples = std::move(samples.gradients);
    result.phases.back().sampled_activations = samples.has_activations;
    result.phases.back().activation_fault = std::move(samples.activation_fault);
  }
  pending_.pop_front();
  const auto overflow = std::find_if(result.phases.begin(), result.phases.end(),
                                     [](const PhaseResult& phase) { return phase.num_overflow_parameters > 0; });
  static_cast<PhaseResult&>(result) = overflow == result.phases.end() ? result.phases.front() : *overflow;
  result.samples.clear();
  result.activation_fault.reset();
  for (const PhaseResult& phase : result.phases) {
    result.samples.insert(result.samples.end(), phase.samples.begin(), phase.samples.end());
    result.sampled_activations = phase.sampled_activations;
    result.activation_fault = result.activation_fault.has_value() ? result.activation_fault : phase.activation_fault;
  }
  result.loss_scale = record.step.loss_scale;
  result.scale_change = record.step.scale_change;
  scaler_.Restore(record.step.scaler);
  known_scaler_ = record.step.scaler;
  (result.skipped ? skipped_steps_ : applied_steps_) += 1;
  if (programs_->fp8 && pending_.empty()) {
    result.fp8 = programs_->fp8->Judge(result.skipped);
  }
  return result;
}

StepResult Engine::Step(const std::vector<Batch>& micro_batches, uint64_t random_stream) {
  Enqueue(micro_batches, random_stream);
  return AwaitStep();
}

std::optional<ActivationFault> Engine::FindActivationFault(const std::vector<Batch>& micro_batches,
                                                           uint64_t random_stream) {
  if (captured_ != nullptr) {
    captured_->MakeRoomFor(micro_batches);
  }
  for (const auto& phase : phases_) {
    if (auto fault = phase->FindActivationFault(micro_batches, random_stream); fault.has_value()) {
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace ampd::amp
