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

// Reports what the steps of a run show besides their own row: an order that was applied, gradients and activations that
// lost bits, layers that left FP8, uneven batches. A finding that lasts is reported once, and again only after a sample
// in which it was gone; a warning about uneven batches is never repeated. Which findings were reported is part of a
// checkpoint, so a resumed run does not repeat them either. Decides nothing about the run.
// Single-threaded; owner: the step loop.
class StepReports {
 public:
  // The findings that were reported and not yet seen gone.
  struct Reported {
    bool underflow = false;      // Of gradients, since the last sample in which none underflowed.
    bool fp8_underflow = false;  // Since the canary last found no underflow in FP8.
    bool activations = false;    // A fault, since the last sampled forward pass without one.
    bool uneven = false;         // Batches may count different numbers of labels.
  };
  // Runs a step's forward pass again and returns its first fault.
  using FindFault = absl::FunctionRef<std::optional<amp::ActivationFault>()>;

  // `telemetry` outlives the reports.
  explicit StepReports(TelemetryWriter& telemetry) : telemetry_(telemetry) {}

  const Reported& reported() const { return reported_; }
  // Continues from an earlier state. A warning about uneven batches counts as reported even if `reported` lacks it.
  void Restore(const Reported& reported);

  // Keeps the findings of a canary step for the reports of gradients that follow.
  void RecordCanary(int64_t step, const amp::StepResult& result);
  // Drops the canary's findings, which belong to the engine that was replaced.
  void ForgetCanary() { canary_ = {}; }

  // Reports the values now in force, which can differ from the order because of the policy.
  absl::Status ReportLossScaleSet(int64_t step, const v1::LossScaleOrder& order, const amp::LossScaler& scaler,
                                  const std::string& preset);
  absl::Status ReportGradients(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  // Does nothing if `why` is empty. `batches`: which ones, for people.
  absl::Status ReportUneven(int64_t step, const std::string& why, const char* batches);
  // If the loss is not finite and the step's forward pass was not sampled, calls `find_fault`.
  absl::Status ReportActivations(int64_t step, const amp::StepResult& result, FindFault find_fault);
  // Reports gradients and FP8 operands that underflow, and layers that the canary demoted. `policy` is the step's.
  absl::Status ReportLostPrecision(int64_t step, const amp::StepResult& result,
                                   const precision::ResolvedPolicy& policy);
  // Logs why steps can't be recorded; empty: they can.
  void LogGraphFailure(const std::string& failure);

 private:
  absl::Status ReportUnderflow(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  absl::Status ReportFp8Underflow(int64_t step, const amp::StepResult& result);
  absl::Status ReportDemotions(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);

  TelemetryWriter& telemetry_;
  Reported reported_;
  CanaryReport canary_;        // Findings about the current engine.
  std::string graph_failure_;  // Logged last.
};

}  // namespace ampd::train
