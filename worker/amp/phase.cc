#include "worker/amp/phase.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/empty_like.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "c10/util/Exception.h"
#include "worker/amp/program_facts.h"
#include "worker/amp/step/format.h"
#include "worker/executor/backward_fault.h"
#include "worker/executor/dtype.h"
#include "worker/executor/op_error.h"

namespace ampd::amp {

namespace {

// A copy to a GPU goes through pinned memory, so that the host need not wait for it.
at::Tensor OnDevice(const at::Tensor& given, c10::Device device) {
  return device.is_cuda() && given.is_cpu() ? given.pin_memory().to(device, /*non_blocking=*/true) : given.to(device);
}

const at::Tensor& FieldOf(const graph::Graph& program, const Batch& batch, graph::ValueId input) {
  const std::string& name = program.value(input).name;
  if (name == "labels") {
    return batch.labels;
  }
  const auto other = batch.others.find(name);
  if (other != batch.others.end()) {
    return other->second;
  }
  // `batch.images` holds the model's first input. A program of one phase may have other inputs before it. Then this
  // input is recognized by its name, "images".
  const bool may_be_first = input == program.inputs().front() || name == "images";
  TORCH_CHECK(may_be_first && batch.images.defined(), "the batch has no ", name);
  return batch.images;
}

}  // namespace

int64_t NumSamples(const Batch& batch) {
  return (batch.images.defined() ? batch.images : batch.others.begin()->second).size(0);
}

std::vector<at::Tensor> InputsOf(const graph::Graph& program, const Batch& batch, c10::Device device,
                                 const PixelMap* pixels) {
  std::vector<at::Tensor> inputs;
  for (const graph::ValueId input : program.inputs()) {
    const at::Tensor& field = FieldOf(program, batch, input);
    inputs.push_back(OnDevice(field, device));
    if (pixels != nullptr && pixels->defined() && field.is_same(batch.images) && field.scalar_type() == at::kByte) {
      inputs.back() = pixels->NumbersOf(inputs.back());
    }
    if (inputs.back().scalar_type() == at::kBool) {  // A mask, which programs also accept as numbers.
      inputs.back() = inputs.back().to(executor::ToScalarType(program.type(input).dtype));
    }
  }
  return inputs;
}

Phase::Phase(Setup setup, const graph::Graph& source, std::unique_ptr<executor::Executor> program,
             std::vector<Parameter> parameters, StepKernels& kernels)
    : setup_(std::move(setup)),
      written_names_(WrittenBuffers(source)),
      batches_counted_(BatchesCounted(source)),
      is_random_(IsRandom(source)),
      program_(std::move(program)),
      parameters_(std::move(parameters)),
      kernels_(kernels),
      optimizer_(setup_.options.optimizer, parameters_, kernels),
      gradients_(parameters_.size()) {
  FindBackwardOrder(source);
}

void Phase::FindBackwardOrder(const graph::Graph& source) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    index[parameters_[i].name] = i;
  }
  for (const ParameterReader& reader : BackwardOrder(source)) {
    if (const auto it = index.find(reader.parameter); it != index.end()) {
      backward_order_.push_back({it->second, reader.module_path});
    }
  }
}

std::vector<at::Tensor> Phase::InputsOf(const Batch& batch) const {
  return amp::InputsOf(program_->graph(), batch, setup_.device, setup_.pixels);
}

absl::Status Phase::Bind(TensorMap state) {
  for (const Parameter& parameter : parameters_) {
    state[parameter.name] = parameter.leaf;
  }
  for (const std::string& name : written_names_) {
    kept_.push_back({state.at(name), at::empty_like(state.at(name))});
    restored_.push_back({kept_.back().to, kept_.back().from});
  }
  return program_->Bind(state);
}

void Phase::Use(const StepScalars& scalars, size_t number) {
  scalars_ = &scalars;
  number_ = number;
}

kernels::PhaseRule Phase::rule() const {
  kernels::PhaseRule rule = optimizer_.rule();
  rule.schedule = setup_.options.schedule;
  rule.max_norm = setup_.options.clip_grad_norm.value_or(0);
  return rule;
}

PhaseSamples Phase::Compute(const std::vector<Batch>& micro_batches, const StepConditions& step) {
  PhaseSamples samples;
  bool looks = step.samples;
  DropGradients();
  KeepBuffers();
  scalars_->loss(number_).zero_();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    SeedRandomOps(step, i, micro_batches.size());
    if (!step.counts_nothing.empty() && step.counts_nothing[i]) {
      Forward(micro_batches[i]);
      continue;
    }
    if (std::exchange(looks, false)) {
      samples = ForwardBackwardSampled(micro_batches[i], step);
    } else {
      ForwardBackward(micro_batches[i], step.recorder != nullptr, /*observer=*/nullptr);
    }
    if (setup_.sums_in_fp32) {
      GatherGradients(/*accumulate=*/micro_batches.size() > 1);
    }
  }
  if (!setup_.sums_in_fp32) {
    GatherGradients(/*accumulate=*/false);  // Autograd has already summed the gradients in the leaves' format.
  }
  kernels_.ComputeGradStats(gradients_, scalars_->stats(number_));
  return samples;
}

std::optional<ActivationFault> Phase::FindActivationFault(const std::vector<Batch>& micro_batches,
                                                          uint64_t random_stream) {
  const at::NoGradGuard no_grad;
  KeepBuffers();
  std::optional<ActivationFault> fault;
  try {
    for (size_t i = 0; i < micro_batches.size() && !fault.has_value(); ++i) {
      SeedRandomOps({.random_stream = random_stream}, i, micro_batches.size());
      ActivationSampler sampler(program_->graph());
      program_->Run(InputsOf(micro_batches[i]), &sampler);
      fault = sampler.Fault();
    }
  } catch (const c10::OutOfMemoryError&) {
    // Too little memory to look for a fault: the search is given up, and training continues.
  }
  kernels_.Copy(restored_, /*if_skipped=*/nullptr);
  return fault;
}

void Phase::Finish() {
  at::NoGradGuard no_grad;
  optimizer_.Step(gradients_, scalars_->decision(number_));
  RollBackBuffers();
  DropGradients();
}

void Phase::DropGradients() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    gradients_[i] = at::Tensor();
    parameters_[i].leaf.mutable_grad() = at::Tensor();
  }
}

PhaseResult Phase::Conclude(const StepRecord& record) {
  const kernels::PhaseBlock& block = record.phases[number_];
  PhaseResult result;
  result.phase = name();
  result.loss = block.loss;
  result.grad_norm = static_cast<float>(block.decision.norm);
  result.learning_rate = setup_.options.optimizer.learning_rate * block.decision.scalars.rate_factor;
  result.skipped = block.decision.skip;
  for (const Reader& reader : backward_order_) {
    const int64_t count = record.stats[static_cast<size_t>(block.first_stat) + reader.parameter].num_non_finite;
    if (count > 0 && ++result.num_overflow_parameters == 1) {
      result.overflow_parameter = parameters_[reader.parameter].name;
      result.overflow_module = reader.module;
      result.overflow_count = count;
    }
    result.total_overflow_count += count;
  }
  applied_steps_ = block.applied_steps;
  return result;
}

// Copies the buffers that the phase's program will write, so that they can be restored. One copy per step is enough,
// because a skipped step skips all its micro-batches.
void Phase::KeepBuffers() {
  const at::NoGradGuard no_grad;
  kernels_.Copy(kept_, /*if_skipped=*/nullptr);
}

void Phase::RollBackBuffers() { kernels_.Copy(restored_, scalars_->decision(number_)); }

uint64_t Phase::SeedOf(uint64_t random_stream, size_t micro_batch) const {
  const uint64_t of_step = SeededRandom(SeededRandom(setup_.seed).Next() + random_stream).Next();
  return SeededRandom(of_step + micro_batch).Next();
}

void Phase::SeedRandomOps(const StepConditions& step, size_t micro_batch, size_t num_micro_batches) const {
  if (!is_random_) {
    return;
  }
  if (step.recorder != nullptr) {
    return step.recorder->UseSeed(number_ * num_micro_batches + micro_batch);
  }
  at::Generator generator = at::globalContext().defaultGenerator(setup_.device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(SeedOf(step.random_stream, micro_batch));
}

// Returns where a backward pass failed, as text for an error message. Runs the program again to find the module, except
// while a step is recorded, because the recording would include that run.
std::string Phase::FindBackwardFault(const Batch& batch, bool is_recorded) {
  std::string where;
  try {
    where = is_recorded ? "" : executor::FindBackwardFault(*program_, InputsOf(batch));
  } catch (const std::exception&) {
    where.clear();  // For example, too little memory for another run. The first error is the one to report.
  }
  return where.empty() ? "the backward pass" : absl::StrCat("the backward pass of ", where);
}

// Multiplies a number by the micro-batch's share of the step. The product is computed in fp64, so that equal shares
// give the same bits as a division by the number of micro-batches.
at::Tensor Phase::ShareOf(const at::Tensor& number, const Batch& batch) const {
  return batch.share.defined() ? number.mul(OnDevice(batch.share, setup_.device)) : number;
}

// Runs forward only, to update running statistics.
void Phase::Forward(const Batch& batch) {
  const at::NoGradGuard no_grad;
  program_->Run(InputsOf(batch));
}

PhaseSamples Phase::ForwardBackwardSampled(const Batch& batch, const StepConditions& step) {
  ActivationSampler sampler(program_->graph());
  ForwardBackward(batch, step.recorder != nullptr, &sampler);
  return {.gradients = SampleGradients(step.samples_every_format),
          .has_activations = true,
          .activation_fault = sampler.Fault()};
}

void Phase::ForwardBackward(const Batch& batch, bool is_recorded, executor::RunObserver* observer) {
  const at::Tensor loss = program_->Run(InputsOf(batch), observer)[0];
  // The loss is not multiplied by the loss scale and the micro-batch's share. Starting the backward pass with their
  // product as the gradient has the same effect.
  const at::Tensor gradient = ShareOf(scalars_->loss_scale(), batch).to(loss.scalar_type());
  try {
    loss.backward(gradient);
  } catch (...) {
    executor::ThrowAsOpError([&] { return FindBackwardFault(batch, is_recorded); });
  }
  at::NoGradGuard no_grad;
  scalars_->loss(number_).add_(ShareOf(loss.detach().to(at::kFloat), batch).to(at::kFloat));
}

bool Phase::has_samples() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const Parameter& parameter) { return parameter.gradient_format == at::kHalf; });
}

std::vector<GradientSample> Phase::SampleGradients(bool of_every_format) const {
  std::vector<GradientSample> samples;
  for (const Reader& reader : backward_order_) {
    const Parameter& parameter = parameters_[reader.parameter];
    const at::Tensor& gradient = parameter.leaf.grad();
    if (gradient.defined() && (of_every_format || parameter.gradient_format == at::kHalf)) {
      samples.push_back(SampleGradient(gradient, parameter.gradient_format));
      samples.back().parameter = parameter.name;
      samples.back().module = reader.module;
    }
  }
  return samples;
}

// Takes the gradients from the leaves. If `accumulate` is true, adds them to the sums in fp32; otherwise the gradients
// keep their format.
void Phase::GatherGradients(bool accumulate) {
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
    kernels_.Accumulate(taken, gradients_);
  } else {
    gradients_ = std::move(taken);
  }
}

TensorMap Phase::EvaluationWeights() {
  const std::vector<at::Tensor>& averages = optimizer_.averages();
  TensorMap weights;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::ScalarType dtype = parameters_[i].leaf.scalar_type();
    if (average_weights_.size() < averages.size()) {
      average_weights_.push_back(dtype == at::kFloat ? averages[i] : EmptyBeside(parameters_[i], dtype));
    }
    weights[parameters_[i].name] = averages.empty() ? parameters_[i].leaf : average_weights_[i];
  }
  return weights;
}

// Does nothing unless a step has begun since the last call, because only steps change the averages.
void Phase::RoundAverages() {
  if (averages_rounded_) {
    return;
  }
  std::vector<StepTensors> tensors(average_weights_.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].master = optimizer_.averages()[i];
    tensors[i].leaf = average_weights_[i];
  }
  kernels_.Round(tensors);
  averages_rounded_ = true;
}

absl::Status Phase::Import(const TensorMap& model, const TensorMap& optimizer, int64_t applied_steps) {
  for (const Parameter& parameter : parameters_) {
    SetMaster(parameter, model.at(parameter.name), kernels_);
  }
  averages_rounded_ = false;
  applied_steps_ = applied_steps;
  return optimizer_.ImportState(optimizer, applied_steps);
}

}  // namespace ampd::amp
