#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "precision/cost/step_flops.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"
#include "worker/data/batcher.h"
#include "worker/data/dataset.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/checkpoint/training_state.h"
#include "worker/train/health/early_stopping.h"
#include "worker/train/health/recovery.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/plan/uneven_batches.h"
#include "worker/train/report/step_reports.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// How far a run has come. Part of a checkpoint.
struct Progress {
  // Takes over the losses of a step. A loss that is not finite and that the step did not train on, because the step was
  // skipped, says nothing about the model: it is left out. `has_trained`: whether any step of the job was applied. If
  // none was, the loss of the last step says why.
  void RecordLosses(const amp::StepResult& result, bool has_trained);

  int64_t step = 0;  // Number of steps whose results were read.
  float train_loss = 0;
  std::map<std::string, float> phase_losses;  // Last loss of each phase, if steps have several.
  uint64_t applied_order = 0;                 // Number of the last live change of the loss scale.
  std::optional<double> best_eval_loss;       // Lowest evaluation loss of a saved checkpoint.
  bool evaluation_pending = false;  // The step of the loaded checkpoint must be evaluated before the next step.
  bool sample_pending = false;      // The sample of `step` is pending: an order to leave came while it was drawn.
};

// The state of a run: the engine in the run's current precision, the position in the data, the plateau schedule, the
// early stopping, the progress, and the states of Recovery and StepReports. The state starts from initial values or a
// checkpoint, can return to a checkpoint, and can be captured for one. TrainingLoop and RecoveryActions decide when
// that happens. Single-threaded; owner: TrainingLoop.
class TrainingRun {
 public:
  // `start` and `telemetry` outlive the run.
  TrainingRun(AttemptPlan plan, const internal::StartAttempt& start, TelemetryWriter& telemetry);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Sets up the state before the first step.
  absl::Status Begin();
  // Loads the checkpoint with which the attempt resumes. Frees the tensor files that `checkpoint` holds in memory.
  absl::Status Resume(LoadedCheckpoint& checkpoint);
  // Returns to a checkpoint, in the run's current precision. Frees the tensor files that `checkpoint` holds in memory.
  // Loss-scale orders that were applied after the checkpoint are not applied again, and a sample that was pending in
  // the checkpoint is not drawn again.
  absl::Status ReturnTo(LoadedCheckpoint& checkpoint);
  // Returns to the state before the first step. Call it only in an attempt that began there.
  absl::Status ReturnToStart();
  // Replaces the engine by one in the precision of recovery().state().raise. The new engine continues from the current
  // state, except that its loss scale starts over.
  absl::Status ChangePrecision();
  // Applies the settings that are newer than progress().applied_order, and reports them in one event. REQUIRES: such a
  // setting exists, and no step is in flight.
  absl::Status ApplyLossScale(const v1::LiveLossScale& settings);

  // Returns a copy of the state for a checkpoint. Reuses the memory of `reuse` where possible
  // (amp::Engine::ExportState).
  TrainingState CaptureState(amp::EngineState reuse) const;
  // The identity and environment of a checkpoint that is made now.
  CheckpointContent Identity() const;
  // Warns if this attempt's environment differs from the checkpoint's, because the numeric results may then differ too.
  absl::Status WarnIfElsewhere(const LoadedCheckpoint& checkpoint) const;

  const internal::StartAttempt& start() const { return start_; }
  const AttemptPlan& plan() const { return plan_; }
  const UnevenBatches& uneven_batches() const { return uneven_batches_; }
  // Whether there is an engine: Begin, Resume, ReturnTo or ReturnToStart made one. All other functions require it.
  bool has_engine() const { return engine_ != nullptr; }
  amp::Engine& engine() const { return *engine_; }
  // The floating-point operations of a step in the run's current precision; 0 while there is no engine.
  const precision::StepFlops& flops() const { return flops_; }
  TelemetryWriter& telemetry() const { return telemetry_; }
  data::Batcher& batcher() { return batcher_; }
  std::optional<amp::Plateau>& plateau() { return plateau_; }
  std::optional<EarlyStopping>& early_stopping() { return early_stopping_; }
  // Whether the early stopping has seen enough evaluations without improvement.
  bool has_stopped_early() const { return early_stopping_.has_value() && early_stopping_->has_stopped(); }
  Recovery& recovery() { return recovery_; }
  const Recovery& recovery() const { return recovery_; }
  StepReports& reports() { return reports_; }
  const StepReports& reports() const { return reports_; }
  Progress& progress() { return progress_; }
  const Progress& progress() const { return progress_; }
  int64_t step() const { return progress_.step; }

 private:
  data::Dataset::Samples Gather(const std::vector<int64_t>& indices, int64_t epoch, data::Dataset::Samples reuse) const;
  absl::Status MakeEngine();
  absl::Status LoadState(TrainingState state);

  AttemptPlan plan_;
  const internal::StartAttempt& start_;
  TelemetryWriter& telemetry_;
  data::Batcher batcher_;
  const UnevenBatches uneven_batches_;
  std::unique_ptr<amp::Engine> engine_;
  precision::StepFlops flops_;
  std::optional<amp::Plateau> plateau_;
  std::optional<EarlyStopping> early_stopping_;
  Recovery recovery_;
  StepReports reports_;
  Progress progress_;
};

}  // namespace ampd::train
