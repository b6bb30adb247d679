#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "precision/policy.h"
#include "worker/amp/engine.h"
#include "worker/train/report/gradient_report.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Reports what the steps of a run show besides their metrics: an order that was applied, gradients and activations that
// lost bits, layers that left FP8, uneven batches. A finding that lasts is reported once, and again only if a sample in
// between did not have it. A warning about uneven batches is reported only once. Checkpoints include which findings
// were reported, so a resumed run does not repeat them. Decides nothing about the run. Single-threaded; owner: the step
// loop.
class StepReports {
 public:
  // Which findings were reported and have not gone away since.
  struct Reported {
    bool underflow = false;      // Underflow of gradients, since the last sample without any.
    bool fp8_underflow = false;  // Underflow in FP8, since the canary last found none.
    bool activations = false;    // A fault of the forward pass, since the last sampled pass without one.
    bool uneven = false;         // Batches may count different numbers of labels.
  };
  // Runs a step's forward pass again and returns its first fault.
  using FindFault = absl::FunctionRef<std::optional<amp::ActivationFault>()>;

  // `telemetry` outlives the reports.
  explicit StepReports(TelemetryWriter& telemetry) : telemetry_(telemetry) {}

  const Reported& reported() const { return reported_; }
  // Continues from an earlier state, as after a roll-back. A warning about uneven batches that this object has reported
  // still counts as reported.
  void Restore(const Reported& reported);

  // Keeps what the FP8 canary found in a step, for the gradient reports that follow. The canary measures the errors of
  // FP8 layers.
  void RecordCanary(int64_t step, const amp::StepResult& result);
  // Drops the canary's findings, which belong to the engine that was replaced.
  void ForgetCanary() { canary_ = {}; }

  // Reports the loss scale and growth interval now in force, which can differ from the order because of the policy's
  // limits.
  absl::Status ReportLossScaleSet(int64_t step, const v1::LossScaleOrder& order, const amp::LossScaler& scaler,
                                  const std::string& preset);
  absl::Status ReportGradients(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  // Warns, once, that batches may count different numbers of labels. `why`: the reason; empty: reports nothing.
  // `batches` names the affected batches in the message.
  absl::Status ReportUneven(int64_t step, const std::string& why, const char* batches);
  // Reports a fault of the step's forward pass. If the pass was not sampled and the loss is not finite, finds the fault
  // with `find_fault`.
  absl::Status ReportActivations(int64_t step, const amp::StepResult& result, FindFault find_fault);
  // Reports gradients and FP8 operands that underflow, and layers that the canary demoted. `policy`: the policy that
  // the step used.
  absl::Status ReportLostPrecision(int64_t step, const amp::StepResult& result,
                                   const precision::ResolvedPolicy& policy);
  // Logs why steps can't be recorded in a CUDA graph, unless the same reason was logged last. `failure` is empty if
  // they can.
  void LogGraphFailure(const std::string& failure);

 private:
  absl::Status ReportUnderflow(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  absl::Status ReportFp8Underflow(int64_t step, const amp::StepResult& result);
  absl::Status ReportDemotions(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);

  TelemetryWriter& telemetry_;
  Reported reported_;
  CanaryReport canary_;        // Findings about the current engine.
  std::string graph_failure_;  // The reason that was logged last.
};

}  // namespace ampd::train
