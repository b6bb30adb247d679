#include "client/compare/run_facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/job_text.h"

namespace ampd::client {
namespace {

constexpr double kMicrosPerSecond = 1e6;
constexpr size_t kNumParts = 10;
constexpr size_t kLeastPaces = 20;

// The values of the job's steps, in all attempts. Steps that were repeated later are not included.
struct Columns {
  std::vector<double> seconds_per_sample;
  std::vector<double> memory_bytes;
  std::vector<double> peak_memory_bytes;
};

int64_t FirstMicros(const v1::ListMetricPointsResponse& points) {
  for (const auto& segment : points.segments()) {
    if (!segment.superseded() && !segment.steps().time_unix_micros().empty()) {
      return segment.steps().time_unix_micros(0);
    }
  }
  return 0;
}

void AddSegment(const v1::StepColumns& steps, Columns* columns) {
  // Skip the first step of an attempt: its time includes the setup of the device.
  for (int i = 1; i < steps.samples_per_second_size(); ++i) {
    if (steps.samples_per_second(i) > 0) {
      columns->seconds_per_sample.push_back(1 / steps.samples_per_second(i));
    }
  }
  columns->memory_bytes.insert(columns->memory_bytes.end(), steps.memory_allocated_bytes().begin(),
                               steps.memory_allocated_bytes().end());
  columns->peak_memory_bytes.insert(columns->peak_memory_bytes.end(), steps.memory_peak_bytes().begin(),
                                    steps.memory_peak_bytes().end());
}

void AddCurves(const v1::ListMetricPointsResponse& points, RunFacts* facts) {
  const int64_t first = FirstMicros(points);
  const auto seconds = [first](int64_t micros) { return static_cast<double>(micros - first) / kMicrosPerSecond; };
  for (const auto& segment : points.segments()) {
    if (segment.superseded()) {
      continue;
    }
    const v1::StepColumns& steps = segment.steps();
    const int size = std::min(steps.step_size(), steps.loss_size());
    for (int i = 0; i < size; ++i) {
      const int64_t micros = i < steps.time_unix_micros_size() ? steps.time_unix_micros(i) : first;
      facts->losses.push_back({steps.step(i), steps.loss(i), seconds(micros)});
    }
    for (const v1::EvalPoint& eval : segment.evals()) {
      facts->evals.push_back({eval.step(), eval.loss(), std::max(0.0, seconds(eval.time_unix_micros()))});
      facts->num_eval_samples = eval.num_samples();
    }
  }
}

// Returns whether a step has several losses, as the steps of a GAN have. None of these losses measures the quality of
// the model.
bool HasPhases(const v1::ListMetricPointsResponse& points) {
  return std::any_of(points.segments().begin(), points.segments().end(),
                     [](const auto& segment) { return segment.steps().phases_size() > 1; });
}

std::optional<Tail> TailOfCurve(const std::vector<CurvePoint>& curve) {
  std::vector<double> losses;
  for (const CurvePoint& point : curve) {
    losses.push_back(point.value);
  }
  return TailOf(losses);
}

// Divides the values into ten equal parts, and returns the standard deviation of the parts' means, relative to their
// mean. Unset if there are too few values.
std::optional<double> PaceNoise(const std::vector<double>& seconds_per_sample) {
  if (seconds_per_sample.size() < kLeastPaces) {
    return std::nullopt;
  }
  std::vector<double> parts;
  for (size_t part = 0; part < kNumParts; ++part) {
    const auto begin = static_cast<std::ptrdiff_t>(part * seconds_per_sample.size() / kNumParts);
    const auto end = static_cast<std::ptrdiff_t>((part + 1) * seconds_per_sample.size() / kNumParts);
    parts.push_back(Mean({seconds_per_sample.begin() + begin, seconds_per_sample.begin() + end}));
  }
  return StandardDeviation(parts) / Mean(parts);
}

void AddMeasurements(const v1::ListMetricPointsResponse& points, const v1::Job& job, RunFacts* facts) {
  Columns columns;
  for (const auto& segment : points.segments()) {
    if (!segment.superseded()) {
      AddSegment(segment.steps(), &columns);
    }
  }
  const double batch = static_cast<double>(job.spec().data().batch_size()) * facts->num_devices;
  if (!columns.seconds_per_sample.empty()) {
    facts->samples_per_second = 1 / Mean(columns.seconds_per_sample);
    facts->step_seconds = static_cast<double>(facts->num_steps) * batch / *facts->samples_per_second;
  }
  facts->pace_noise = PaceNoise(columns.seconds_per_sample);
  if (!columns.memory_bytes.empty()) {
    facts->mean_memory_bytes = Mean(columns.memory_bytes);
  }
  if (!columns.peak_memory_bytes.empty()) {
    facts->peak_memory_bytes = *std::max_element(columns.peak_memory_bytes.begin(), columns.peak_memory_bytes.end());
  }
}

// Adds the metrics that the trainer reported at the end of the last attempt. The pace in these metrics is the mean over
// all steps, so it replaces the pace derived from the points, some of which may be missing.
void AddFinalMetrics(const v1::Attempt& attempt, RunFacts* facts) {
  if (!attempt.outcome().has_final_metrics()) {
    return;
  }
  const v1::FinalMetrics& metrics = attempt.outcome().final_metrics();
  facts->num_threads = metrics.num_threads();
  facts->num_skipped = std::max(facts->num_skipped, metrics.skipped_steps());
  if (metrics.has_eval_loss()) {
    facts->eval_loss = metrics.eval_loss();
  }
  if (metrics.has_eval_accuracy()) {
    facts->eval_accuracy = metrics.eval_accuracy();
  }
  if (metrics.peak_memory_bytes() > 0) {
    facts->peak_memory_bytes =
        std::max(facts->peak_memory_bytes.value_or(0), static_cast<double>(metrics.peak_memory_bytes()));
  }
  if (metrics.steps_per_second() > 0) {
    const double seconds = static_cast<double>(facts->num_steps) / metrics.steps_per_second();
    if (facts->samples_per_second.has_value() && seconds > 0) {
      facts->samples_per_second = *facts->samples_per_second * *facts->step_seconds / seconds;
    }
    facts->step_seconds = seconds;
  }
  if (metrics.flops_per_step() > 0 && metrics.steps_per_second() > 0) {
    facts->flops_per_second = metrics.flops_per_step() * metrics.steps_per_second();
  }
  if (metrics.has_mfu()) {
    facts->mfu = metrics.mfu();
  }
}

// Adds the energy of all attempts. Adds nothing if one of the attempts did not measure it.
void AddEnergy(const v1::Job& job, RunFacts* facts) {
  double joules = 0;
  for (const v1::Attempt& attempt : job.attempts()) {
    if (!attempt.outcome().final_metrics().has_energy_joules()) {
      return;
    }
    joules += attempt.outcome().final_metrics().energy_joules();
  }
  if (job.attempts_size() > 0 && job.attempts_size() == job.num_attempts()) {
    facts->energy_joules = joules;
  }
}

void AddDevice(const v1::Attempt& attempt, const std::string& device_name, RunFacts* facts) {
  facts->precision = attempt.precision();
  facts->emulated = attempt.emulated() || attempt.outcome().final_metrics().emulated();
  facts->num_devices = std::max(1, attempt.devices_size());
  facts->device = absl::StrCat(attempt.worker(), "/", absl::StrJoin(attempt.devices(), "+"),
                               device_name.empty() ? "" : ", " + device_name);
}

}  // namespace

bool RunFacts::diverged() const {
  switch (reason) {
    case v1::Reason::NONFINITE_LOSS:
    case v1::Reason::NONFINITE_GRADIENTS:
    case v1::Reason::NONFINITE_STATE:
    case v1::Reason::LOSS_SCALE_COLLAPSED:
    case v1::Reason::DIVERGED:
      return true;
    default:
      return (loss_tail.has_value() && !std::isfinite(loss_tail->level)) ||
             (eval_loss.has_value() && !std::isfinite(*eval_loss));
  }
}

RunFacts FactsOf(const RunRecord& record) {
  const v1::Job& job = record.job;
  RunFacts facts = {.job_id = job.id(),
                    .job_name = job.spec().name(),
                    .seed = job.spec().train().seed(),
                    .state = job.state(),
                    .reason = job.reason(),
                    .stopped_early = HasStoppedEarly(job),
                    .num_skipped = job.progress().skipped_steps()};
  facts.num_steps = job.progress().step();
  if (!job.attempts().empty()) {
    AddDevice(*job.attempts().rbegin(), record.device_name, &facts);
    facts.num_steps = std::max(facts.num_steps, job.attempts().rbegin()->outcome().last_step());
  }
  for (const v1::Event& event : record.events.events()) {
    facts.num_scale_collapses += event.kind() == v1::Event::LOSS_SCALE_AT_FLOOR ? 1 : 0;
    facts.num_precision_raises += event.kind() == v1::Event::PRECISION_RAISED ? 1 : 0;
  }
  AddCurves(record.points, &facts);
  facts.loss_tail = HasPhases(record.points) ? std::nullopt : TailOfCurve(facts.losses);
  AddMeasurements(record.points, job, &facts);
  if (!job.attempts().empty()) {
    AddFinalMetrics(*job.attempts().rbegin(), &facts);
  }
  AddEnergy(job, &facts);
  return facts;
}

}  // namespace ampd::client
