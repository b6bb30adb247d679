#include "worker/amp/engine.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros_like.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "graph/passes.h"
#include "graph/segments.h"
#include "precision/pass.h"
#include "worker/amp/cuda_math.h"
#include "worker/amp/emulated_ops.h"
#include "worker/amp/format.h"
#include "worker/amp/fp8_linear.h"
#include "worker/amp/program_facts.h"
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

// Convolutions read channels-last weights, and then all that follows them, about 1.8 times as fast on a CPU (measured
// on the MNIST CNN); everything else keeps its order. The strides are set by a copy: contiguous() leaves the strides of
// a weight with one input channel as they are, for it is both, and its convolution would run in the slow order.
at::Tensor InTrainingLayout(const at::Tensor& tensor) {
  if (tensor.dim() != 4) {
    return tensor.contiguous();
  }
  if (tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast &&
      tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return tensor;
  }
  return at::empty_like(tensor, tensor.options().memory_format(at::MemoryFormat::ChannelsLast)).copy_(tensor);
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
  std::unique_ptr<Executor> train;
  std::unique_ptr<Executor> eval;
};

Engine::Engine(const EngineOptions& options, const precision::ResolvedPolicy& policy)
    : options_(options),
      sums_in_fp32_(policy.formats.accumulation == graph::Dtype::kFloat32),
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
  AMPD_ASSIGN_OR_RETURN(const graph::Graph train, graph::WithLossHead(model));
  AMPD_ASSIGN_OR_RETURN(const graph::Graph eval, graph::WithEvalHead(graph::EvalProgram(model)));
  AMPD_ASSIGN_OR_RETURN(engine->programs_->train,
                        Prepare(train, policy, options.checkpoint_segments, engine->programs_->registry));
  AMPD_ASSIGN_OR_RETURN(engine->programs_->eval, Prepare(eval, policy, {}, engine->programs_->registry));
  engine->MakeParameters(executor::InitialState(model, options.seed), policy);
  engine->FindBackwardOrder(train);
  OptimizerConfig optimizer = options.optimizer;
  optimizer.moment_dtype = executor::ToScalarType(policy.formats.optimizer_state);
  optimizer.rounding_seed = options.seed;
  engine->optimizer_ = std::make_unique<Optimizer>(optimizer, engine->parameters_, *engine->kernels_);
  AMPD_RETURN_IF_ERROR(engine->Bind());
  return engine;
}

void Engine::MakeParameters(const TensorMap& initial, const precision::ResolvedPolicy& policy) {
  for (const graph::State& state : programs_->train->graph().parameters()) {
    const at::Tensor value = InTrainingLayout(initial.at(state.name).to(options_.device.device));
    const precision::ParameterRow row = FindRow(policy.parameters, state.name).value_or(precision::ParameterRow());
    Parameter parameter = MakeParameter(state.name, value, executor::ToScalarType(row.dtype), row.master, *kernels_);
    parameter.stochastic = policy.formats.stochastic_rounding;
    parameter.leaf.requires_grad_(true);
    parameters_.push_back(std::move(parameter));
  }
  for (const graph::State& state : programs_->train->graph().buffers()) {
    const at::Tensor& buffer = initial.at(state.name);
    const auto row = FindRow(policy.buffers, state.name);
    buffers_[state.name] =
        buffer.to(options_.device.device, row.has_value() ? executor::ToScalarType(row->dtype) : buffer.scalar_type());
  }
  gradients_.resize(parameters_.size());
}

void Engine::FindBackwardOrder(const graph::Graph& program) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    index[parameters_[i].name] = i;
  }
  for (const ParameterReader& reader : BackwardOrder(program)) {
    backward_order_.push_back({index.at(reader.parameter), reader.module_path});
  }
  for (const std::string& name : WrittenBuffers(program)) {
    kept_buffers_[name] = at::empty_like(buffers_.at(name));
  }
  is_random_ = IsRandom(program);
}

absl::Status Engine::Bind() {
  TensorMap state = buffers_;
  for (const Parameter& parameter : parameters_) {
    state[parameter.name] = parameter.leaf;
  }
  AMPD_RETURN_IF_ERROR(programs_->train->Bind(state));
  for (size_t i = 0; i < optimizer_->averages().size(); ++i) {
    const at::Tensor& average = optimizer_->averages()[i];
    const at::ScalarType dtype = parameters_[i].leaf.scalar_type();
    const at::Tensor weights = dtype == at::kFloat ? average : EmptyBeside(parameters_[i], dtype);
    average_weights_.push_back(weights);
    state[parameters_[i].name] = weights;
  }
  return programs_->eval->Bind(state);
}

StepResult Engine::Step(const std::vector<Batch>& micro_batches, uint64_t random_stream) {
  StepResult result;
  result.loss_scale = scaler_.scale();
  const double rate_factor = RateFactor(options_.schedule, applied_steps_);
  result.learning_rate = options_.optimizer.learning_rate * rate_factor;
  KeepBuffers();
  if (programs_->fp8) {
    programs_->fp8->BeginStep(applied_steps_ + skipped_steps_);
  }
  const bool samples =
      options_.sample_every_steps > 0 && (applied_steps_ + skipped_steps_) % options_.sample_every_steps == 0;
  const auto num_micro_batches = static_cast<int>(micro_batches.size());
  for (int i = 0; i < num_micro_batches; ++i) {
    SeedRandomOps(random_stream, i);
    result.loss +=
        ForwardBackward(OnDevice(micro_batches[static_cast<size_t>(i)]), result.loss_scale, num_micro_batches);
    if (samples && i == 0) {
      result.samples = SampleGradients();
    }
    if (sums_in_fp32_) {
      GatherGradients(/*accumulate=*/num_micro_batches > 1);
    }
  }
  if (!sums_in_fp32_) {
    GatherGradients(/*accumulate=*/false);  // autograd has summed them on the leaves, in the leaves' format
  }
  const Found found = Examine();
  const double norm = found.norm / result.loss_scale;
  result.grad_norm = static_cast<float>(norm);
  result.overflow_parameter = found.parameter;
  result.overflow_module = found.module;
  result.overflow_count = found.count;
  result.total_overflow_count = found.total_count;
  result.num_overflow_parameters = found.num_parameters;
  // With no scaler there is nothing to back off: non-finite gradients are a divergence, and the caller's to judge. The
  // step is skipped all the same, so that the weights stay what they were. So it is with a scale that fell so low that
  // nothing can be divided by it.
  result.skipped = found.num_parameters > 0 || !std::isfinite(1.0f / result.loss_scale);
  if (!result.skipped) {
    // torch.nn.utils.clip_grad_norm_: the coefficient is max_norm / (norm + 1e-6), at most 1.
    const double clip =
        options_.clip_grad_norm.has_value() ? std::min(1.0, *options_.clip_grad_norm / (norm + 1e-6)) : 1.0;
    at::NoGradGuard no_grad;
    optimizer_->Step(gradients_, static_cast<float>(clip / result.loss_scale), rate_factor);
  } else {
    RollBackBuffers();
  }
  if (programs_->fp8) {
    result.fp8 = programs_->fp8->EndStep(!result.skipped);
  }
  Tail(result.skipped, result);
  return result;
}

// Once for all micro-batches: a step is skipped as a whole.
void Engine::KeepBuffers() {
  at::NoGradGuard no_grad;
  for (auto& [name, kept] : kept_buffers_) {
    kept.copy_(buffers_.at(name));
  }
}

void Engine::RollBackBuffers() {
  at::NoGradGuard no_grad;
  for (const auto& [name, kept] : kept_buffers_) {
    buffers_.at(name).copy_(kept);
  }
}

void Engine::SeedRandomOps(uint64_t random_stream, int micro_batch) const {
  if (!is_random_) {
    return;
  }
  const uint64_t of_step = SeededRandom(SeededRandom(options_.seed).Next() + random_stream).Next();
  at::Generator generator = at::globalContext().defaultGenerator(options_.device.device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(SeededRandom(of_step + static_cast<uint64_t>(micro_batch)).Next());
}

Batch Engine::OnDevice(const Batch& batch) const {
  return {batch.images.to(options_.device.device), batch.labels.to(options_.device.device)};
}

float Engine::ForwardBackward(const Batch& batch, float scale, int num_micro_batches) {
  std::vector<at::Tensor> inputs = {batch.images, batch.labels};
  const at::Tensor loss = programs_->train->Run(std::move(inputs))[0];
  // The gradient of the scaled mean over all micro-batches, without a multiplication of the loss itself.
  loss.backward(at::full({}, scale / static_cast<float>(num_micro_batches), loss.options().requires_grad(false)));
  return loss.item<float>() / static_cast<float>(num_micro_batches);
}

std::vector<GradientSample> Engine::SampleGradients() const {
  std::vector<GradientSample> samples;
  for (const Reader& reader : backward_order_) {
    const Parameter& parameter = parameters_[reader.parameter];
    const at::Tensor& gradient = parameter.leaf.grad();
    if (gradient.defined() && gradient.scalar_type() == at::kHalf) {
      samples.push_back(SampleGradient(gradient));
      samples.back().parameter = parameter.name;
      samples.back().module = reader.module;
    }
  }
  return samples;
}

// Takes the gradients off the leaves. A single micro-batch's stay as they came; several are summed in fp32.
void Engine::GatherGradients(bool accumulate) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> taken(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& leaf_gradient = parameters_[i].leaf.mutable_grad();
    if (!leaf_gradient.defined()) {
      continue;
    }
    taken[i] = InTrainingLayout(std::exchange(leaf_gradient, at::Tensor()));
    if (accumulate && !gradients_[i].defined()) {
      gradients_[i] = EmptyBeside(parameters_[i], at::kFloat).zero_();
    }
  }
  if (accumulate) {
    kernels_->Accumulate(taken, gradients_);
  } else {
    gradients_ = std::move(taken);
  }
}

Engine::Found Engine::Examine() {
  const std::vector<kernels::GradientFacts> facts = kernels_->Examine(gradients_);
  Found found;
  double sum_squares = 0;
  for (const kernels::GradientFacts& fact : facts) {
    sum_squares += fact.sum_squares;
  }
  for (const Reader& reader : backward_order_) {
    const int64_t count = facts[reader.parameter].num_non_finite;
    if (count > 0 && ++found.num_parameters == 1) {
      found.parameter = parameters_[reader.parameter].name;
      found.module = reader.module;
      found.count = count;
    }
    found.total_count += count;
  }
  found.norm = std::sqrt(sum_squares);
  return found;
}

void Engine::Tail(bool found_inf, StepResult& result) {
  for (at::Tensor& gradient : gradients_) {
    gradient = at::Tensor();
  }
  averages_rounded_ = false;
  result.scale_change = scaler_.Update(found_inf);
  (found_inf ? skipped_steps_ : applied_steps_) += 1;
}

// An average in the leaf's format is made when the first batch after a step asks for it.
void Engine::RoundAverages() {
  if (averages_rounded_) {
    return;
  }
  std::vector<StepTensors> tensors(average_weights_.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].master = optimizer_->averages()[i];
    tensors[i].leaf = average_weights_[i];
  }
  kernels_->Round(tensors);
  averages_rounded_ = true;
}

EvalSums Engine::Evaluate(const Batch& batch) {
  at::NoGradGuard no_grad;
  RoundAverages();
  const Batch here = OnDevice(batch);
  std::vector<at::Tensor> inputs = {here.images, here.labels};
  const std::vector<at::Tensor> sums = programs_->eval->Run(std::move(inputs));
  return {.loss = sums[0].item<float>(), .num_correct = sums[1].item<int64_t>(), .num_samples = batch.labels.numel()};
}

EngineState Engine::ExportState() const {
  EngineState state;
  for (const Parameter& parameter : parameters_) {
    state.model[parameter.name] = MasterOf(parameter);
  }
  for (const auto& [name, buffer] : buffers_) {
    const bool widen = buffer.is_floating_point();
    state.model[name] = ContiguousCopy(widen ? buffer.to(at::kFloat) : buffer);
  }
  state.optimizer = optimizer_->ExportState();
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
  for (const Parameter& parameter : parameters_) {
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
  for (const Parameter& parameter : parameters_) {
    SetMaster(parameter, state.model.at(parameter.name), *kernels_);
  }
  AMPD_RETURN_IF_ERROR(optimizer_->ImportState(state.optimizer, state.applied_steps));
  if (programs_->fp8) {
    programs_->fp8->ImportState(state.fp8);
  }
  averages_rounded_ = false;
  scaler_.Restore(state.scaler);
  applied_steps_ = state.applied_steps;
  skipped_steps_ = state.skipped_steps;
  return absl::OkStatus();
}

}  // namespace ampd::amp
