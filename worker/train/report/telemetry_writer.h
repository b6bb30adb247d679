#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "precision/cost/step_flops.h"
#include "worker/amp/engine.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/report/gradient_report.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {

// The time, memory and amount of work of a step, and measurements of the device during the step.
struct StepCosts {
  double seconds = 0;
  double data_wait_seconds = 0;
  int64_t num_samples = 0;
  DeviceMemory memory;
  precision::StepFlops work;
  std::optional<double> power_watts;  // nullopt: not measured.
  std::optional<double> utilization;
};

// Puts the steps, evaluations and events of an attempt into its outbox, as messages of job.proto. Logs all of them
// except steps.
// Single-threaded; owner: the step loop.
class TelemetryWriter {
 public:
  TelemetryWriter(TelemetryOutbox& outbox, int attempt) : outbox_(outbox), attempt_(attempt) {}

  // Adds the step's row of numbers. Also adds an event if gradients overflowed, and an event if the loss scale changed.
  absl::Status Step(int64_t step, const amp::StepResult& result, double next_scale, const StepCosts& costs);
  // Sets the time of the evaluation and adds it.
  absl::Status Eval(v1::EvalPoint point);
  // Adds the sample. `seconds`: how long it took to draw.
  absl::Status Sample(v1::Sample sample, double seconds);
  // Adds a file of predictions or of a profile.
  absl::Status File(v1::Sample file);
  absl::Status Event(v1::Event::Kind kind, int64_t step, const std::string& message,
                     const std::map<std::string, std::string>& attributes = {});
  // Adds a GRADIENTS_SAMPLED event with the step's gradient samples and the FP8 canary's last findings. `scaling`: the
  // policy's loss scaling.
  absl::Status Gradients(int64_t step, const amp::StepResult& result, const precision::LossScaleConfig& scaling,
                         const CanaryReport& canary);

 private:
  absl::Status AddEvent(v1::Event event);
  absl::Status Add(v1::TelemetryBatch record);
  absl::Status ScaleEvents(int64_t step, const amp::StepResult& result, double next_scale);

  TelemetryOutbox& outbox_;
  const int attempt_;
};

}  // namespace ampd::train
