#include "worker/amp/engine.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/passes.h"
#include "graph/segments.h"
#include "precision/pass.h"
#include "worker/amp/cuda_math.h"
#include "worker/amp/emulated_ops.h"
#include "worker/amp/format.h"
#include "worker/amp/fp8_linear.h"
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
  return Executor::Create(program, registry);
}

// What the policy says of a parameter or buffer; nothing when it does not name it.
template <typename Row>
std::optional<Row> FindRow(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) {
      return row;
    }
  }
  return std::nullopt;
}

}  // namespace

struct Engine::Programs {
  c10::intrusive_ptr<Fp8Layers> fp8;  // null: no layer computes in FP8
  executor::OpRegistry registry;
  std::unique_ptr<Executor> eval;
};

Engine::Engine(const EngineOptions& options, const precision::ResolvedPolicy& policy)
    : options_(options),
      scaler_(policy.loss_scale),
      programs_(std::make_unique<Programs>()),
      kernels_(StepKernels::Make(options.device)) {}

Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const graph::Graph& model,
                                                       const precision::ResolvedPolicy& policy,
                                                       const EngineOptions& options) {
  auto engine = std::unique_ptr<Engine>(new Engine(options, policy));
  if (options.device.device.is_cuda()) {
    UseCudaMath(policy);
  }
  RegisterEmulatedOps(engine->programs_->registry);
  if (!policy.fp8_layers.empty()) {
    engine->programs_->fp8 = c10::make_intrusive<Fp8Layers>(*policy.fp8, policy.fp8_layers, options.device.device);
    RegisterFp8Linear(engine->programs_->registry, engine->programs_->fp8);
  }
  AMPD_RETURN_IF_ERROR(engine->MakePhase(model, policy));
  AMPD_ASSIGN_OR_RETURN(const graph::Graph eval, graph::WithEvalHead(graph::EvalProgram(model)));
  AMPD_ASSIGN_OR_RETURN(engine->programs_->eval, Prepare(eval, policy, {}, engine->programs_->registry));
  AMPD_RETURN_IF_ERROR(engine->Bind());
  return engine;
}

absl::Status Engine::MakePhase(const graph::Graph& model, const precision::ResolvedPolicy& policy) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph source, graph::WithLossHead(model));
  AMPD_ASSIGN_OR_RETURN(auto program, Prepare(source, policy, options_.checkpoint_segments, programs_->registry));
  Phase::Setup setup{.options = {.optimizer = options_.optimizer,
                                 .schedule = options_.schedule,
                                 .clip_grad_norm = options_.clip_grad_norm},
                     .seed = options_.seed,
                     .sums_in_fp32 = policy.formats.accumulation == graph::Dtype::kFloat32,
                     .device = options_.device.device};
  setup.options.optimizer.moment_dtype = executor::ToScalarType(policy.formats.optimizer_state);
  setup.options.optimizer.rounding_seed = setup.seed;
  phase_ =
      std::make_unique<Phase>(std::move(setup), source, std::move(program), MakeParameters(model, policy), *kernels_);
  return absl::OkStatus();
}

// Fills the buffers, too.
std::vector<Parameter> Engine::MakeParameters(const graph::Graph& model, const precision::ResolvedPolicy& policy) {
  std::vector<Parameter> parameters;
  const TensorMap initial = executor::InitialState(model, options_.seed);
  for (const graph::State& state : model.parameters()) {
    const std::string& name = state.name;
    const at::Tensor value = InTrainingLayout(initial.at(name).to(options_.device.device));
    const precision::ParameterRow row = FindRow(policy.parameters, name).value_or(precision::ParameterRow());
    Parameter parameter = MakeParameter(name, value, executor::ToScalarType(row.dtype), row.master, *kernels_);
    parameter.stochastic = policy.formats.stochastic_rounding;
    parameter.leaf.requires_grad_(true);
    parameters.push_back(std::move(parameter));
  }
  for (const graph::State& state : model.buffers()) {
    const at::Tensor& buffer = initial.at(state.name);
    const auto row = FindRow(policy.buffers, state.name);
    buffers_[state.name] =
        buffer.to(options_.device.device, row.has_value() ? executor::ToScalarType(row->dtype) : buffer.scalar_type());
  }
  return parameters;
}

absl::Status Engine::Bind() {
  AMPD_RETURN_IF_ERROR(phase_->Bind(buffers_));
  TensorMap state = phase_->EvaluationWeights();
  state.insert(buffers_.begin(), buffers_.end());
  return programs_->eval->Bind(state);
}

StepResult Engine::Step(const std::vector<Batch>& micro_batches, uint64_t random_stream) {
  const Phase::StepConditions step{.loss_scale = scaler_.scale(),
                                   .random_stream = random_stream,
                                   .samples = options_.sample_every_steps > 0 &&
                                              (applied_steps_ + skipped_steps_) % options_.sample_every_steps == 0};
  StepResult result;
  if (programs_->fp8) {
    programs_->fp8->BeginStep(applied_steps_ + skipped_steps_);
  }
  static_cast<PhaseResult&>(result) = phase_->Compute(micro_batches, step);
  phase_->Finish(result.skipped, step);
  if (programs_->fp8) {
    result.fp8 = programs_->fp8->EndStep(!result.skipped);
  }
  Tail(result);
  return result;
}

void Engine::Tail(StepResult& result) {
  result.loss_scale = scaler_.scale();
  result.scale_change = scaler_.Update(result.skipped);
  (result.skipped ? skipped_steps_ : applied_steps_) += 1;
}

EvalSums Engine::Evaluate(const Batch& batch) {
  at::NoGradGuard no_grad;
  phase_->RoundAverages();
  const std::vector<at::Tensor> sums =
      programs_->eval->Run(InputsOf(programs_->eval->graph(), batch, options_.device.device));
  return {.loss = sums[0].item<float>(), .num_correct = sums[1].item<int64_t>(), .num_samples = batch.labels.numel()};
}

EngineState Engine::ExportState() const {
  EngineState state;
  for (const Parameter& parameter : phase_->parameters()) {
    state.model[parameter.name] = MasterOf(parameter);
  }
  state.optimizer = phase_->ExportOptimizer();
  for (const auto& [name, buffer] : buffers_) {
    const bool widen = buffer.is_floating_point();
    state.model[name] = ContiguousCopy(widen ? buffer.to(at::kFloat) : buffer);
  }
  if (programs_->fp8) {
    state.fp8 = programs_->fp8->ExportState();
  }
  state.scaler = scaler_.state();
  state.applied_steps = applied_steps_;
  state.skipped_steps = skipped_steps_;
  return state;
}

absl::Status Engine::ImportState(const EngineState& state) {
  at::NoGradGuard no_grad;
  std::vector<std::pair<std::string, at::Tensor>> targets(buffers_.begin(), buffers_.end());
  for (const Parameter& parameter : phase_->parameters()) {
    targets.emplace_back(parameter.name, parameter.leaf);
  }
  for (const auto& [name, target] : targets) {
    const auto it = state.model.find(name);
    if (it == state.model.end() || it->second.sizes() != target.sizes()) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE",
                   absl::StrCat("the state has no tensor ", name, " of the model's shape"));
    }
  }
  for (const auto& [name, buffer] : buffers_) {
    buffer.copy_(state.model.at(name));
  }
  AMPD_RETURN_IF_ERROR(phase_->Import(state.model, state.optimizer, state.applied_steps));
  if (programs_->fp8) {
    programs_->fp8->ImportState(state.fp8);
  }
  scaler_.Restore(state.scaler);
  applied_steps_ = state.applied_steps;
  skipped_steps_ = state.skipped_steps;
  return absl::OkStatus();
}

}  // namespace ampd::amp
