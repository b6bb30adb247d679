#pragma once

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

namespace ampd::agent {

// How long the steps and the checkpoints of this worker's attempts take, as histograms for Prometheus
// (docs/metrics.md). Thread-safe.
class TrainingTimes {
 public:
  TrainingTimes();

  // Adds a training step. `precision`: the precision preset that the step used.
  void AddStep(const std::string& precision, double seconds);
  // Adds the time to save a checkpoint. It begins when the training state is copied in memory, and ends when the files
  // are durable.
  void AddSave(double seconds);

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& step_seconds_;  // One histogram per precision.
  prometheus::Histogram& save_seconds_;
};

}  // namespace ampd::agent
