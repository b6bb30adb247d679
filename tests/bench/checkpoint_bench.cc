// Measures the cost of a checkpoint of an MLP under AdamW in fp32. The checkpoint has the weights and both moments.
//
//   checkpoint_bench FOLDER NUM_LAYERS WIDTH   For each line "save" on stdin, copies the training state (the training
//                                              waits for this), then writes the copy to FOLDER and syncs it, as the
//                                              trainer does. Prints the seconds of the copy, the seconds of the whole
//                                              save (the copy included), and the checkpoint's size in bytes.
//
// tools/bench/checkpoint.py alternates between this program and one that saves tensors of the same shapes with PyTorch
// and safetensors.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "absl/time/clock.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/mlp.h"
#include "precision/policy.h"
#include "worker/amp/engine.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/checkpoint/training_state.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd {
namespace {

constexpr char kJob[] = "bench";

std::unique_ptr<amp::Engine> MakeEngine(int num_layers, int width) {
  v1::MlpSpec spec;
  spec.set_in_features(width);
  spec.set_num_classes(width);
  for (int layer = 1; layer < num_layers; ++layer) {
    spec.add_hidden(width);
  }
  const graph::Graph model = models::BuildMlp(spec).value();
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  v1::PrecisionPolicy policy;
  policy.set_preset("fp32");
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), cpu, precision::OptimizerKind::kAdam);
  auto engine = amp::Engine::Create(model, resolved.value(), options).value();
  engine->Step({{at::rand({1, width}), at::randint(0, width, {1}, at::kLong)}});  // So that the moments are not all 0.
  return engine;
}

double SecondsSince(absl::Time begin) { return absl::ToDoubleSeconds(absl::Now() - begin); }

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: checkpoint_bench FOLDER NUM_LAYERS WIDTH\n");
    return 2;
  }
  train::InstallCountingAllocator();
  const auto engine = MakeEngine(std::atoi(argv[2]), std::atoi(argv[3]));
  train::CheckpointIo io;
  train::CheckpointStore store(argv[1], io);
  train::TrainingState snapshot;
  for (std::string line; std::getline(std::cin, line);) {
    const absl::Time begin = absl::Now();
    snapshot.engine = engine->ExportState(std::move(snapshot.engine));
    const double stall_seconds = SecondsSince(begin);
    ++snapshot.step;
    train::CheckpointContent content;
    content.job_id = kJob;
    const auto saved = train::SaveState(snapshot, std::move(content), store);
    const double save_seconds = SecondsSince(begin);
    if (!saved.ok() || !io.RemoveAll(std::string(argv[1]) + "/" + kJob).ok()) {
      std::fprintf(stderr, "checkpoint_bench: %s\n", saved.status().ToString().c_str());
      return 1;
    }
    std::printf("%.9f %.9f %lld\n", stall_seconds, save_seconds, static_cast<long long>(saved->size_bytes));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
