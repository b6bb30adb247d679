#include "worker/amp/phase.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/full.h"
#include "base/random.h"
#include "worker/amp/format.h"
#include "worker/amp/program_facts.h"

namespace ampd::amp {

std::vector<at::Tensor> InputsOf(const graph::Graph& program, const Batch& batch, c10::Device device) {
  std::vector<at::Tensor> inputs;
  for (const graph::ValueId input : program.inputs()) {
    const std::string& name = program.value(input).name;
    const at::Tensor& given = name == "labels" ? batch.labels : name == "noise" ? batch.noise : batch.images;
    inputs.push_back(given.to(device));
  }
  return inputs;
}

Phase::Phase(Setup setup, const graph::Graph& source, std::unique_ptr<executor::Executor> program,
             std::vector<Parameter> parameters, StepKernels& kernels)
    : setup_(std::move(setup)),
      written_names_(WrittenBuffers(source)),
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

absl::Status Phase::Bind(TensorMap state) {
  for (const Parameter& parameter : parameters_) {
    state[parameter.name] = parameter.leaf;
  }
  for (const std::string& name : written_names_) {
    written_.push_back({state.at(name), at::empty_like(state.at(name))});
  }
  return program_->Bind(state);
}

double Phase::RateOf(const StepConditions& step) const {
  return step.rate_factor * RateFactor(setup_.options.schedule, applied_steps());
}

PhaseResult Phase::Compute(const std::vector<Batch>& micro_batches, const StepConditions& step) {
  PhaseResult result;
  result.phase = name();
  result.learning_rate = setup_.options.optimizer.learning_rate * RateOf(step);
  KeepBuffers();
  const auto num_micro_batches = static_cast<int>(micro_batches.size());
  for (int i = 0; i < num_micro_batches; ++i) {
    SeedRandomOps(step.random_stream, i);
    result.loss += ForwardBackward(micro_batches[static_cast<size_t>(i)], step.loss_scale, num_micro_batches);
    if (step.samples && i == 0) {
      result.samples = SampleGradients(step.samples_every_format);
    }
    if (setup_.sums_in_fp32) {
      GatherGradients(/*accumulate=*/num_micro_batches > 1);
    }
  }
  if (!setup_.sums_in_fp32) {
    GatherGradients(/*accumulate=*/false);  // autograd has summed them on the leaves, in the leaves' format
  }
  Examine(step.loss_scale, result);
  // With no scaler there is nothing to back off: non-finite gradients are a divergence, and the caller's to judge. The
  // step is skipped all the same, so that the weights stay what they were. So it is with a scale that fell so low that
  // nothing can be divided by it.
  result.skipped = result.num_overflow_parameters > 0 || !std::isfinite(1.0f / step.loss_scale);
  return result;
}

void Phase::Finish(bool skipped, const StepConditions& step) {
  if (skipped) {
    RollBackBuffers();
  } else {
    // torch.nn.utils.clip_grad_norm_: the coefficient is max_norm / (norm + 1e-6), at most 1.
    const std::optional<double>& max_norm = setup_.options.clip_grad_norm;
    const double clip = max_norm.has_value() ? std::min(1.0, *max_norm / (norm_ + 1e-6)) : 1.0;
    at::NoGradGuard no_grad;
    optimizer_.Step(gradients_, static_cast<float>(clip / step.loss_scale), RateOf(step));
  }
  for (at::Tensor& gradient : gradients_) {
    gradient = at::Tensor();
  }
  averages_rounded_ = false;
}

// Once for all micro-batches: they are skipped as a whole.
void Phase::KeepBuffers() {
  at::NoGradGuard no_grad;
  for (const WrittenBuffer& one : written_) {
    one.kept.copy_(one.buffer);
  }
}

void Phase::RollBackBuffers() {
  at::NoGradGuard no_grad;
  for (const WrittenBuffer& one : written_) {
    one.buffer.copy_(one.kept);
  }
}

void Phase::SeedRandomOps(uint64_t random_stream, int micro_batch) const {
  if (!is_random_) {
    return;
  }
  const uint64_t of_step = SeededRandom(SeededRandom(setup_.seed).Next() + random_stream).Next();
  at::Generator generator = at::globalContext().defaultGenerator(setup_.device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(SeededRandom(of_step + static_cast<uint64_t>(micro_batch)).Next());
}

float Phase::ForwardBackward(const Batch& batch, float scale, int num_micro_batches) {
  const at::Tensor loss = program_->Run(InputsOf(program_->graph(), batch, setup_.device))[0];
  // The gradient of the scaled mean over all micro-batches, without a multiplication of the loss itself.
  loss.backward(at::full({}, scale / static_cast<float>(num_micro_batches), loss.options().requires_grad(false)));
  return loss.item<float>() / static_cast<float>(num_micro_batches);
}

std::vector<GradientSample> Phase::SampleGradients(bool of_every_format) const {
  std::vector<GradientSample> samples;
  for (const Reader& reader : backward_order_) {
    const Parameter& parameter = parameters_[reader.parameter];
    const at::Tensor& gradient = parameter.leaf.grad();
    if (gradient.defined() && (of_every_format || gradient.scalar_type() == at::kHalf)) {
      samples.push_back(SampleGradient(gradient));
      samples.back().parameter = parameter.name;
      samples.back().module = reader.module;
    }
  }
  return samples;
}

// Takes the gradients off the leaves. A single micro-batch's stay as they came; several are summed in fp32.
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

void Phase::Examine(float scale, PhaseResult& result) {
  const std::vector<kernels::GradientFacts> facts = kernels_.Examine(gradients_);
  double sum_squares = 0;
  for (const kernels::GradientFacts& fact : facts) {
    sum_squares += fact.sum_squares;
  }
  norm_ = std::sqrt(sum_squares) / scale;
  result.grad_norm = static_cast<float>(norm_);
  for (const Reader& reader : backward_order_) {
    const int64_t count = facts[reader.parameter].num_non_finite;
    if (count > 0 && ++result.num_overflow_parameters == 1) {
      result.overflow_parameter = parameters_[reader.parameter].name;
      result.overflow_module = reader.module;
      result.overflow_count = count;
    }
    result.total_overflow_count += count;
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

// An average in the leaf's format is made when the first batch after a step asks for it.
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
  return optimizer_.ImportState(optimizer, applied_steps);
}

}  // namespace ampd::amp
