// The engine's runs that train nothing: evaluation, prediction and generation.
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/random.h"
#include "c10/util/Exception.h"
#include "worker/amp/engine.h"
#include "worker/amp/engine_programs.h"
#include "worker/amp/program_facts.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

namespace {

// Seeds the device's random numbers. The numbers differ from those of training steps with the same seed.
void SeedInference(const at::Device& device, uint64_t seed, uint64_t place) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(SeededRandom(SeededRandom(~seed).Next() + place).Next());
}

}  // namespace

EvalSums Engine::Evaluate(const Batch& batch, uint64_t place) {
  TORCH_CHECK(programs_->eval != nullptr, "the model has no head to evaluate it by");
  const std::vector<at::Tensor> outputs = RunInference(*programs_->eval, batch, place);
  return SumsOf(programs_->head, programs_->num_classes, programs_->eval->graph(), outputs, batch.labels,
                programs_->label_counter->CountOf(batch));
}

std::vector<Prediction> Engine::Predict(const Batch& batch, uint64_t place) {
  TORCH_CHECK(programs_->predictor != nullptr, "the engine does not predict");
  const std::vector<at::Tensor> outputs = RunInference(*programs_->predictor, batch, place);
  std::vector<Prediction> predictions;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::ScalarType type = outputs[i].is_floating_point() ? at::kFloat : outputs[i].scalar_type();
    predictions.push_back(
        {programs_->predictor->graph().outputs()[i].name, outputs[i].to(at::kCPU, type).contiguous()});
  }
  return predictions;
}

at::Tensor Engine::Generate(const at::Tensor& input) {
  TORCH_CHECK(programs_->generator != nullptr, "the engine has no generator");
  return RunInference(*programs_->generator, {.images = input, .labels = {}})[0].to(at::kCPU, at::kFloat);
}

std::vector<at::Tensor> Engine::RunInference(executor::Executor& program, const Batch& batch, uint64_t place) {
  at::NoGradGuard no_grad;
  const bool is_random = IsRandom(program.graph());
  const auto run = [&] {
    if (is_random) {
      SeedInference(options_.device.device, options_.seed, place);
    }
    return program.Run(InputsOf(program.graph(), batch, options_.device.device, &pixels_));
  };
  for (const auto& phase : phases_) {
    phase->RoundAverages();
  }
  try {
    return run();
  } catch (const c10::OutOfMemoryError&) {
    if (captured_ == nullptr || !captured_->ReleaseGraph()) {
      throw;
    }
  }
  return run();
}

}  // namespace ampd::amp
