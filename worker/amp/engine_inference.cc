// The engine's runs that train nothing: evaluation, prediction and generation.
#include <ATen/core/grad_mode.h>

#include <vector>

#include "c10/util/Exception.h"
#include "worker/amp/engine.h"
#include "worker/amp/engine_programs.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

EvalSums Engine::Evaluate(const Batch& batch) {
  TORCH_CHECK(programs_->eval != nullptr, "the model has no head to evaluate it by");
  const std::vector<at::Tensor> outputs = RunInference(*programs_->eval, batch);
  return SumsOf(programs_->head, programs_->num_classes, programs_->eval->graph(), outputs, batch.labels,
                programs_->label_counter->CountOf(batch));
}

std::vector<Prediction> Engine::Predict(const Batch& batch) {
  TORCH_CHECK(programs_->predictor != nullptr, "the engine does not predict");
  const std::vector<at::Tensor> outputs = RunInference(*programs_->predictor, batch);
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

std::vector<at::Tensor> Engine::RunInference(executor::Executor& program, const Batch& batch) {
  at::NoGradGuard no_grad;
  const auto run = [&] { return program.Run(InputsOf(program.graph(), batch, options_.device.device, &pixels_)); };
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
