#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"
#include "client/compare/statistics.h"

namespace ampd::client {

// The labels that ampctl gives to the jobs of one comparison.
inline constexpr char kCompareLabel[] = "compare";        // id of the comparison
inline constexpr char kPolicyLabel[] = "compare-policy";  // policy as the user named it

// The server's data about one job.
struct RunRecord {
  v1::Job job;
  v1::ListMetricPointsResponse points;
  v1::ListEventsResponse events;
  std::string device_name;  // The vendor's name of the device; empty: not known.
};

// A point of a curve.
struct CurvePoint {
  int64_t step = 0;
  double value = 0;
  double seconds = 0;  // wall time since the curve's first point, pauses included
};

// The facts about one finished job that a comparison uses. An unset value was not measured.
struct RunFacts {
  std::string job_id;
  std::string job_name;
  std::string precision;  // The preset in use at the end; "" if the job never started.
  uint64_t seed = 0;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  v1::Reason::Code reason = v1::Reason::REASON_UNSPECIFIED;

  std::string device;  // "w1/cpu, AMD EPYC"
  int num_devices = 1;
  int num_threads = 0;  // Threads on a CPU; 0: not known.
  bool emulated = false;

  int64_t num_steps = 0;
  bool stopped_early = false;  // train.early_stopping ended the run before its last step.
  int64_t num_skipped = 0;
  int64_t num_scale_collapses = 0;  // how often the loss scale reached its minimum
  int64_t num_precision_raises = 0;

  // The time that the job's steps took: the number of steps at the mean pace. It excludes the time in the queue, and
  // the time for startup, evaluations and checkpoints.
  std::optional<double> step_seconds;
  std::optional<double> samples_per_second;
  // Relative standard deviation of the pace between ten equal parts of the run.
  std::optional<double> pace_noise;
  std::optional<double> mean_memory_bytes;
  std::optional<double> peak_memory_bytes;
  std::optional<double> energy_joules;
  std::optional<double> flops_per_second;  // FLOPs per second while steps ran, from FinalMetrics.flops_per_step
  std::optional<double> mfu;

  std::vector<CurvePoint> losses;  // in the order of the steps, skipped steps included
  std::optional<Tail> loss_tail;
  std::vector<CurvePoint> evals;  // losses of the evaluations
  std::optional<double> eval_loss;
  std::optional<double> eval_accuracy;
  int64_t num_eval_samples = 0;

  bool succeeded() const { return state == v1::Job::SUCCEEDED; }
  // Returns whether the loss, the gradients or the loss scale went out of range, so that the model is of no use.
  bool diverged() const;
};

// Collects the facts of a job. The record may lack some of the metric points, because the server keeps fewer points of
// a long job.
RunFacts FactsOf(const RunRecord& record);

}  // namespace ampd::client
