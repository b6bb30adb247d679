#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compare/comparison.h"
#include "client/compare/run_facts.h"

// Jobs and runs with chosen numbers, so that a test knows the right verdict.
namespace ampd::client {

// The numbers of a finished job, as a test chooses them. The job's loss falls from 2.3 to `loss` with a small
// variation.
struct PlantedJob {
  std::string precision = "fp32";
  uint64_t seed = 0;
  double loss = 0.5;    // the loss to which the curve falls
  double noise = 0.02;  // the largest variation of a step's loss
  double step_seconds = 0.01;
  int64_t memory_bytes = int64_t{100} << 20;
  std::optional<double> accuracy = 0.9;
  int64_t num_eval_samples = 10'000;
  bool emulated = false;
  std::string device_name = "AMD EPYC 9R14";
  int num_threads = 2;
  int num_steps = 200;
  int asked_steps = 0;  // If above num_steps, the job stopped early: after num_steps of these steps.
  v1::Job::State state = v1::Job::SUCCEEDED;
  v1::Reason::Code reason = v1::Reason::SUCCEEDED_NORMALLY;
};

inline constexpr int kPlantedBatch = 32;

inline v1::Job JobOf(const PlantedJob& planted) {
  v1::Job job;
  job.set_id(absl::StrCat("j-", planted.precision, planted.seed));
  job.set_state(planted.state);
  job.set_reason(planted.reason);
  job.set_num_attempts(1);
  job.mutable_spec()->set_name("fashion-" + planted.precision);
  job.mutable_spec()->mutable_data()->set_batch_size(kPlantedBatch);
  job.mutable_spec()->mutable_precision()->set_preset(planted.precision);
  job.mutable_spec()->mutable_train()->set_seed(planted.seed);
  job.mutable_spec()->mutable_train()->set_steps(std::max(planted.num_steps, planted.asked_steps));
  if (planted.asked_steps > 0) {
    job.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(3);
  }
  job.mutable_progress()->set_step(planted.num_steps);
  v1::Attempt* const attempt = job.add_attempts();
  attempt->set_worker("w1");
  attempt->add_devices("cpu");
  attempt->set_precision(planted.precision);
  attempt->set_emulated(planted.emulated);
  attempt->mutable_outcome()->set_last_step(planted.num_steps);
  v1::FinalMetrics& metrics = *attempt->mutable_outcome()->mutable_final_metrics();
  metrics.set_steps_per_second(1 / planted.step_seconds);
  metrics.set_peak_memory_bytes(planted.memory_bytes);
  metrics.set_num_threads(planted.num_threads);
  if (planted.accuracy.has_value()) {
    metrics.set_eval_accuracy(*planted.accuracy);
    metrics.set_eval_loss(planted.loss * 1.1);
  }
  return job;
}

// Returns the loss of a step: a falling curve plus a variation that looks random, but depends only on seed and step.
inline double LossAt(const PlantedJob& planted, int step) {
  const double variation = std::sin(step * 12.9898 + static_cast<double>(planted.seed) * 78.233) * 43758.5453;
  return planted.loss + (2.3 - planted.loss) * std::exp(-step / 15.0) +
         planted.noise * (2 * (variation - std::floor(variation)) - 1);
}

inline RunRecord RecordOf(const PlantedJob& planted) {
  RunRecord record = {.job = JobOf(planted), .device_name = planted.device_name};
  auto* const segment = record.points.add_segments();
  v1::StepColumns* const steps = segment->mutable_steps();
  for (int step = 1; step <= planted.num_steps; ++step) {
    steps->add_step(step);
    steps->add_loss(static_cast<float>(LossAt(planted, step)));
    // The pace varies by 1% from step to step. The first step takes 50 times as long as the others.
    const double seconds = planted.step_seconds * (step == 1 ? 50 : step % 2 == 0 ? 1.01 : 0.99);
    steps->add_samples_per_second(static_cast<float>(kPlantedBatch / seconds));
    steps->add_memory_allocated_bytes(planted.memory_bytes / 2);
    steps->add_memory_peak_bytes(planted.memory_bytes);
    steps->add_time_unix_micros(1'700'000'000'000'000 + static_cast<int64_t>(step * planted.step_seconds * 1e6));
  }
  if (planted.accuracy.has_value()) {
    for (const int step : {planted.num_steps / 2, planted.num_steps}) {
      v1::EvalPoint* const eval = segment->add_evals();
      eval->set_step(step);
      eval->set_loss(LossAt(planted, step) * 1.1);
      eval->set_accuracy(*planted.accuracy);
      eval->set_num_samples(planted.num_eval_samples);
      eval->set_time_unix_micros(1'700'000'000'000'000 + static_cast<int64_t>(step * planted.step_seconds * 1e6));
    }
  }
  return record;
}

inline std::vector<PolicyRuns> PoliciesOf(const std::vector<PlantedJob>& planted) {
  std::vector<RunFacts> runs;
  std::vector<v1::JobSpec> specs;
  for (const PlantedJob& one : planted) {
    const RunRecord record = RecordOf(one);
    runs.push_back(FactsOf(record));
    specs.push_back(record.job.spec());
  }
  return GroupByPolicy(runs, specs);
}

}  // namespace ampd::client
