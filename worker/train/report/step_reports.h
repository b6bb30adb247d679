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

// Reports findings about the steps of a run that are not metrics: applied loss-scale orders, gradients and activations
// that lost precision, layers that left FP8, uneven batches. A finding that persists over several samples is reported
// once. It is reported again only after a sample without it. A warning about uneven batches is reported only once.
// Checkpoints include which findings were reported, so a resumed run does not repeat them. Decides nothing about the
// run. Single-threaded; owner: the step loop.
class StepReports {
 public:
  // The findings that were reported and still persist.
  struct Reported {
    bool underflow = false;      // Underflow of gradients. Cleared by a sample without underflow.
    bool fp8_underflow = false;  // Underflow in FP8. Cleared when the canary finds no underflow.
    // Faults in the forward pass. Both are cleared by a sampled pass without a fault.
    bool activations = false;  // A fault of the kind kVanished or kDividedOut.
    bool not_finite = false;   // A fault of the kind kNotFinite.
    bool uneven = false;       // Batches that may count different numbers of labels. Never cleared.
  };
  // Runs a step's forward pass again and returns its first fault.
  using FindFault = absl::FunctionRef<std::optional<amp::ActivationFault>()>;

  // `telemetry` outlives the reports.
  explicit StepReports(TelemetryWriter& telemetry) : telemetry_(telemetry) {}

  const Reported& reported() const { return reported_; }
  // Replaces the reported findings, for example by those of a checkpoint after a roll-back. Uneven batches that this
  // object has already reported stay reported.
  void Restore(const Reported& reported);

  // Stores the findings of the FP8 canary, which measures the errors of FP8 layers in some steps. Later gradient
  // reports include these findings.
  void RecordCanary(int64_t step, const amp::StepResult& result);
  // Drops the canary's findings, which belong to the engine that was replaced.
  void ForgetCanary() { canary_ = {}; }

  // Reports the loss scale and the growth interval after `order` was applied. They can differ from the order, because
  // the policy limits them.
  absl::Status ReportLossScaleSet(int64_t step, const v1::LossScaleOrder& order, const amp::LossScaler& scaler,
                                  const std::string& preset);
  absl::Status ReportGradients(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  // Warns, once, that batches may count different numbers of labels. `why`: the reason; empty: reports nothing.
  // `batches` names the affected batches in the message.
  absl::Status ReportUneven(int64_t step, const std::string& why, const char* batches);
  // Reports a fault of the step's forward pass. If the pass was not sampled and the loss is not finite, finds the fault
  // with `find_fault`. If several losses in a row are not finite, it looks for the fault at the first of them, and at
  // the later ones only until a fault of the kind kNotFinite was reported.
  absl::Status ReportActivations(int64_t step, const amp::StepResult& result, FindFault find_fault);
  // The fault of the last step's forward pass. If the loss of several steps in a row is not finite, it is the fault of
  // the first of them. Empty if none was found or looked for.
  const std::optional<amp::ActivationFault>& activation_fault() const { return activation_fault_; }
  // Reports gradients and FP8 operands that underflow, and layers that the canary demoted. `policy`: the policy that
  // the step used.
  absl::Status ReportLostPrecision(int64_t step, const amp::StepResult& result,
                                   const precision::ResolvedPolicy& policy);
  // Logs `failure`, the reason why steps can't be recorded in a CUDA graph, unless the same reason was logged last.
  // Does nothing if `failure` is empty.
  void LogGraphFailure(const std::string& failure);

 private:
  absl::Status ReportUnderflow(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);
  absl::Status ReportFp8Underflow(int64_t step, const amp::StepResult& result);
  absl::Status ReportDemotions(int64_t step, const amp::StepResult& result, const precision::ResolvedPolicy& policy);

  TelemetryWriter& telemetry_;
  Reported reported_;
  std::optional<amp::ActivationFault> activation_fault_;
  bool last_loss_was_finite_ = true;
  CanaryReport canary_;        // The findings about the current engine.
  std::string graph_failure_;  // The failure that was logged last.
};

}  // namespace ampd::train
