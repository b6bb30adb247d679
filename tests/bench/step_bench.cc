// Measures the engine's steps per second on the MNIST CNN under several presets. The presets take turns in every round.
//
//   step_bench BATCH_SIZE ROUNDS PRESET...   prints one JSON line per preset: {"preset","steps_per_second"} (median)

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/models.h"
#include "precision/policy.h"
#include "tests/bench/this_cpu.h"
#include "worker/amp/engine.h"
#include "worker/train/loop/run_attempt.h"

namespace ampd {
namespace {

constexpr int kStepsARound = 20;

struct Contestant {
  std::string preset;
  std::unique_ptr<amp::Engine> engine;
  std::vector<double> rates;
};

std::unique_ptr<amp::Engine> MakeEngine(const std::string& preset) {
  v1::ModelSpec spec;
  spec.mutable_lenet();
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const graph::Graph model = *models::BuildModel(spec);
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.clip_grad_norm = 1.0;
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), ThisCpu(), precision::OptimizerKind::kAdam);
  return *amp::Engine::Create(model, *resolved, options);
}

double StepsPerSecond(amp::Engine& engine, const amp::Batch& batch) {
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kStepsARound; ++i) {
    engine.Step({batch});
  }
  return kStepsARound / absl::ToDoubleSeconds(absl::Now() - begin);
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: step_bench BATCH_SIZE ROUNDS PRESET...\n");
    return 2;
  }
  train::WarmUp("cpu").IgnoreError();
  at::set_num_threads(2);
  const int64_t size = std::atoi(argv[1]);
  const amp::Batch batch{at::rand({size, 1, 28, 28}), at::randint(0, 10, {size}, at::kLong)};
  std::vector<Contestant> contestants;
  for (int i = 3; i < argc; ++i) {
    contestants.push_back({argv[i], MakeEngine(argv[i]), {}});
    StepsPerSecond(*contestants.back().engine, batch);
  }
  for (int round = 0; round < std::atoi(argv[2]); ++round) {
    for (Contestant& contestant : contestants) {
      contestant.rates.push_back(StepsPerSecond(*contestant.engine, batch));
    }
  }
  for (Contestant& contestant : contestants) {
    std::sort(contestant.rates.begin(), contestant.rates.end());
    std::printf(R"({"preset": "%s", "steps_per_second": %.2f})"
                "\n",
                contestant.preset.c_str(), contestant.rates[contestant.rates.size() / 2]);
  }
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
