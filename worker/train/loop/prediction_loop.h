#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/amp/engine.h"
#include "worker/train/loop/attempt_loop.h"
#include "worker/train/loop/device_watch.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/predict/prediction_files.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Runs an attempt of a job that predicts (JobSpec.predict):
//
//   load weights -> [orders -> batch -> files that are full]* -> last file -> wait until the server has all files
//
// Each batch counts as one step. The files are the job's result, so the attempt does not finish before the server has
// stored them. An order to leave takes effect between two batches, or while the loop waits for the server. The loop
// makes no checkpoint. Every attempt begins with the first sample. Its files have the same names as those of an earlier
// attempt, and replace them. Single-threaded; owner: the trainer's main thread.
class PredictionLoop final : public AttemptLoop {
 public:
  PredictionLoop(AttemptPlan plan, const Context& context);

  absl::StatusOr<v1::Outcome> Run() override;
  void AwaitCheckpoint() override {}
  int64_t step() const override { return step_; }
  bool has_begun() const override { return has_begun_; }
  v1::FinalMetrics metrics() const override;

 private:
  absl::Status Prepare();
  absl::Status PredictBatch();
  v1::Outcome Leave(const internal::LeaveAttempt& leave);
  void ReportState(v1::Attempt::State state);

  const Context context_;
  AttemptPlan plan_;
  TelemetryWriter telemetry_;
  PredictionFiles files_;
  std::unique_ptr<amp::Engine> engine_;
  DeviceWatch device_watch_;
  std::chrono::steady_clock::time_point begin_;
  int64_t step_ = 0;
  bool has_begun_ = false;
};

}  // namespace ampd::train
