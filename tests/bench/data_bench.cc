// Measures how fast the trainer reads batches, and how long a step waits for its batch.
//
//   data_bench epochs idx|tokens FOLDER   for each line "epoch" on stdin, reads the data once in a new order and prints
//                                         the seconds; for each line "check", reads it likewise and prints the sum of
//                                         all samples and the sum of all labels
//   data_bench steps FOLDER PRESET STEPS  takes STEPS warm-up steps of LeNet on the images, then STEPS measured steps;
//                                         prints one line of means: {"ms_a_step","ms_waited_a_step"}
//
// tools/bench/data_loading.py writes FOLDER and uses the same sizes; data_loader_bench measures LibTorch's DataLoader.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/sum.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/models.h"
#include "precision/cost/memory.h"
#include "precision/policy.h"
#include "tests/bench/this_cpu.h"
#include "worker/amp/engine.h"
#include "worker/data/batcher.h"
#include "worker/data/dataset.h"
#include "worker/train/loop/run_attempt.h"

namespace ampd {
namespace {

// The constants below have the same values as in tools/bench/data_loading.py and data_loader_bench.
constexpr int64_t kImagesABatch = 250;
constexpr int64_t kWindowsABatch = 32;
constexpr int64_t kWindowTokens = 256;
constexpr int64_t kVocabulary = 8192;
constexpr double kMean = 0.286;
constexpr double kDeviation = 0.353;

data::DataFile File(const std::string& folder, const std::string& name) { return {folder, name, name}; }

data::Dataset Images(const std::string& folder) {
  return data::Dataset::ReadIdx({.images = File(folder, "train-images-idx3-ubyte"),
                                 .labels = File(folder, "train-labels-idx1-ubyte"),
                                 .mean = kMean,
                                 .deviation = kDeviation,
                                 .num_classes = 10})
      .value();
}

data::Dataset Windows(const std::string& folder) {
  return data::Dataset::ReadText({.file = File(folder, "tokens.bin"),
                                  .format = data::TokenFormat::kUint16,
                                  .sequence_length = kWindowTokens,
                                  .vocabulary = kVocabulary})
      .value();
}

// Returns how many batches the training loop reads ahead, and the number of threads for this.
data::Batcher::Ahead AheadOf(const data::Dataset& dataset, int64_t batch_size) {
  return {
      .batches = static_cast<size_t>(precision::BatchesAhead(dataset.Get({0}).bytes() * batch_size)),
      .threads = static_cast<size_t>(precision::GatherThreads(static_cast<int>(std::thread::hardware_concurrency())))};
}

// A dataset with a batcher, configured in the same way as for an attempt of a job.
struct Source {
  Source(data::Dataset samples, int64_t batch_size)
      : dataset(std::move(samples)),
        batcher(
            {.num_samples = dataset.size(), .batch_size = batch_size, .seed = 1},
            [this](const std::vector<int64_t>& indices, int64_t epoch, data::Dataset::Samples reuse) {
              return dataset.Get(indices, {}, epoch, data::Dataset::Pixels::kNumbers, std::move(reuse));
            },
            AheadOf(dataset, batch_size)),
        batches_an_epoch(dataset.size() / batch_size) {
    batcher.Start();
  }

  data::Dataset dataset;
  data::Batcher batcher;
  int64_t batches_an_epoch;
};

void AnswerEpochs(Source& source) {
  for (std::string line; std::getline(std::cin, line);) {
    const bool checks = line == "check";
    double samples = 0;
    double labels = 0;
    const absl::Time begin = absl::Now();
    for (int64_t i = 0; i < source.batches_an_epoch; ++i) {
      const data::Batcher::Batch batch = source.batcher.Next();
      if (checks) {
        samples += batch.samples.images.sum(at::kDouble).item<double>();
        labels += batch.samples.labels.sum(at::kDouble).item<double>();
      }
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    checks ? std::printf("%.9g %.9g\n", samples, labels) : std::printf("%.9f\n", seconds);
    std::fflush(stdout);
  }
}

std::unique_ptr<amp::Engine> MakeEngine(const std::string& preset) {
  v1::ModelSpec spec;
  spec.mutable_lenet();
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const graph::Graph model = models::BuildModel(spec).value();
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.clip_grad_norm = 1.0;
  const auto resolved =
      precision::ResolvePolicy(policy, graph::WithLossHead(model).value(), ThisCpu(), precision::OptimizerKind::kAdam);
  return amp::Engine::Create(model, resolved.value(), options).value();
}

void MeasureSteps(Source& source, const std::string& preset, int num_steps) {
  const auto engine = MakeEngine(preset);
  absl::Duration waited;
  absl::Time begin;
  for (int i = -num_steps; i < num_steps; ++i) {
    const absl::Time asked = absl::Now();
    if (i == 0) {
      begin = asked;
    }
    const data::Batcher::Batch batch = source.batcher.Next();
    waited += i < 0 ? absl::ZeroDuration() : absl::Now() - asked;
    engine->Step({{batch.samples.images, batch.samples.labels}});
  }
  std::printf(R"({"ms_a_step": %.3f, "ms_waited_a_step": %.4f})"
              "\n",
              absl::ToDoubleMilliseconds(absl::Now() - begin) / num_steps,
              absl::ToDoubleMilliseconds(waited) / num_steps);
}

int Main(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const std::string kind = arguments.size() == 3 ? arguments[1] : "";
  train::WarmUp("cpu").IgnoreError();
  at::set_num_threads(2);
  if (what == "epochs" && (kind == "idx" || kind == "tokens")) {
    Source source(kind == "idx" ? Images(arguments[2]) : Windows(arguments[2]),
                  kind == "idx" ? kImagesABatch : kWindowsABatch);
    AnswerEpochs(source);
    return 0;
  }
  const int num_steps = arguments.size() == 4 ? std::atoi(arguments[3].c_str()) : 0;
  if (what != "steps" || num_steps < 1) {
    std::fprintf(stderr, "usage: data_bench epochs idx|tokens FOLDER | data_bench steps FOLDER PRESET STEPS\n");
    return 2;
  }
  Source source(Images(arguments[1]), kImagesABatch);
  MeasureSteps(source, arguments[2], num_steps);
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main({argv + 1, argv + argc}); }
