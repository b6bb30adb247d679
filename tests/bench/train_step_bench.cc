// Measures whole training steps of one network under one preset: forward pass, backward pass, clipping and AdamW.
//
//   train_step_bench NETWORK PRESET THREADS [sampled]   NETWORK: mlp, cnn or gpt; sampled: every step also samples its
//                                                       gradients
//
// For each line "N" on stdin, the program takes N steps on one batch, and prints the seconds per step and the last
// loss. tools/bench/train_step.py does the same in PyTorch, from the same weights and samples.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "precision/policy.h"
#include "tests/bench/this_cpu.h"
#include "worker/amp/engine.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd {
namespace {

// The constants below have the same values as in tools/bench/train_step.py.
constexpr uint64_t kWeightSeed = 7;
constexpr uint64_t kDataSeed = 11;
constexpr int64_t kVocabulary = 2048;

struct Task {
  graph::Graph model;
  amp::Batch batch;
};

Task Mlp() {
  v1::MlpSpec spec;
  spec.add_hidden(2048);
  spec.add_hidden(2048);
  return {models::BuildMlp(spec).value(), {at::rand({256, 784}), at::randint(0, 10, {256}, at::kLong)}};
}

Task Cnn() {
  return {models::BuildResnet(models::ResnetConfig()).value(),
          {at::rand({64, 3, 32, 32}), at::randint(0, 10, {64}, at::kLong)}};
}

Task Gpt() {
  const models::GptConfig config = {
      .num_layers = 6, .width = 384, .num_heads = 6, .vocabulary = kVocabulary, .sequence_length = 256};
  return {models::BuildGpt(config).value(),
          {at::randint(0, kVocabulary, {8, 256}, at::kLong), at::randint(0, kVocabulary, {8, 256}, at::kLong)}};
}

std::unique_ptr<amp::Engine> MakeEngine(const graph::Graph& model, const std::string& preset) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3, .weight_decay = 0.01};
  options.clip_grad_norm = 1.0;
  options.seed = kWeightSeed;
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), ThisCpu(), precision::OptimizerKind::kAdam);
  return amp::Engine::Create(model, resolved.value(), options).value();
}

int Main(int argc, char** argv) {
  const bool sampled = argc == 5 && std::string(argv[4]) == "sampled";
  const std::string network = argc == 4 || sampled ? argv[1] : "";
  if (network != "mlp" && network != "cnn" && network != "gpt") {
    std::fprintf(stderr, "usage: train_step_bench mlp|cnn|gpt PRESET THREADS [sampled]\n");
    return 2;
  }
  train::InstallCountingAllocator();
  at::set_num_threads(std::atoi(argv[3]));
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(kDataSeed);
  const Task task = network == "mlp" ? Mlp() : network == "cnn" ? Cnn() : Gpt();
  const auto engine = MakeEngine(task.model, argv[2]);
  for (std::string line; std::getline(std::cin, line);) {
    const int num_steps = std::atoi(line.c_str());
    float loss = 0;
    const absl::Time begin = absl::Now();
    for (int i = 0; i < num_steps; ++i) {
      if (sampled) {
        engine->SampleNextStep();
      }
      loss = engine->Step({task.batch}).loss;
    }
    std::printf("%.9f %.6f\n", absl::ToDoubleSeconds(absl::Now() - begin) / num_steps, loss);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
