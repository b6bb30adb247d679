#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/train/checkpoint/checkpoint_saver.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/attempt_loop.h"
#include "worker/train/loop/device_watch.h"
#include "worker/train/loop/evaluations.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/loop/recovery_actions.h"
#include "worker/train/loop/run_summary.h"
#include "worker/train/loop/step_runner.h"
#include "worker/train/loop/training_run.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/profile/step_profiler.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Trains one attempt from its start or checkpoint to its end, or until it is ordered to leave:
//
//   restore -> [orders -> step -> telemetry -> evaluation, sample and checkpoint if due]*
//           -> checkpoint -> evaluation -> sample
//
// This class is the schedule. TrainingRun holds the state, StepRunner makes the steps, Recovery decides about bad
// numbers, RecoveryActions carries out these decisions, and CheckpointSaver writes checkpoints.
//
// The last checkpoint comes before the last evaluation and the last sample. If one of them fails or the trainer is
// killed, no trained state is lost, and an attempt that resumes from that checkpoint makes up for the missing
// evaluation or sample. Any other checkpoint comes after the sample of its step, so an attempt that resumes from it
// does not draw that sample again. The last evaluation's loss is in the outcome, not in the checkpoint.
//
// If the loop is ordered to leave while it draws a sample, it stops drawing. If steps were left to train, the
// checkpoint that it makes on leaving records the sample as pending, and the next attempt draws it before its first
// step.
//
// On a GPU the next step begins before the results of the previous step are read, so that the device never waits for
// the host. When the loop reacts to a result, one more step may therefore be in flight. The loop reads all steps in
// flight before it applies an order, evaluates, draws a sample, makes a checkpoint, begins or ends a profile, or ends.
//
// A checkpoint costs the loop a copy of the state in memory. The copy is written while training continues, and reported
// once it is durable. The loop waits for this write before it makes the next checkpoint, rolls back, leaves or ends. If
// the write fails, the attempt ends before the next step.
//
// If train.early_stopping stops the training, the attempt ends at that step in the same way as after the last step. In
// this case the evaluation of the step comes before the last checkpoint. An attempt that resumes from this checkpoint
// trains no further step and ends too.
//
// The loop leaves between two steps. It makes a checkpoint first, except on a cancel. If the numbers go wrong beyond
// recovery, on_divergence decides: report it and continue, end the attempt, or roll back to the newest checkpoint (the
// start if there is none) up to three times per job. If the job may roll back, no checkpoint is made while the numbers
// look bad, so the newest one is always good. A plain roll-back continues with the data after the failed step. A
// roll-back that raises the precision repeats the data since the checkpoint, and the raise may be reverted after a
// quiet period. Run() does not catch LibTorch's exceptions. Single-threaded; owner: the trainer's main thread.
class TrainingLoop final : public AttemptLoop {
 public:
  TrainingLoop(AttemptPlan plan, const Context& context);

  absl::StatusOr<v1::Outcome> Run() override;
  void AwaitCheckpoint() override { checkpoints_.Join(); }
  int64_t step() const override { return run_.step(); }
  bool has_begun() const override { return has_begun_; }
  v1::FinalMetrics metrics() const override;

 private:
  absl::Status Prepare();
  absl::Status Resume();
  absl::Status RunPendingActions();
  absl::Status ApplyLossScale();
  absl::Status FollowProfile();
  absl::Status EndProfile();
  absl::Status ReportNoProfile(const absl::Status& why);
  absl::Status EndStep();
  absl::Status EndSteps();
  absl::Status RunPeriodicActions();
  absl::Status React(const Decision& decision);
  absl::Status CheckState();
  absl::Status CheckTrained();
  bool SavedBeyond() const;
  // Whether no step is left to train.
  bool is_done() const { return stops_early_ || run_.step() >= run_.plan().total_steps; }
  absl::Status SaveCheckpoint();
  absl::StatusOr<v1::Outcome> Finish();
  absl::StatusOr<v1::Outcome> Leave(const internal::LeaveAttempt& leave);

  bool must_leave() const { return context_.link.leave().has_value(); }
  void ReportState(v1::Attempt::State state) {
    context_.link.ReportState(StateReportOf(run_.plan(), run_.step(), state));
  }

  const Context context_;
  TelemetryWriter telemetry_;
  TrainingRun run_;
  DeviceWatch device_watch_;
  StepRunner steps_;
  FiniteChecks finite_checks_;
  Evaluations evaluations_;
  CheckpointSaver checkpoints_;
  RecoveryActions recovery_actions_;
  StepProfiler profiler_;
  int profile_steps_ = 0;  // Steps of the profile that is being recorded.
  bool has_begun_ = false;
  bool stops_early_ = false;  // train.early_stopping ends the training at the current step.
  bool rolled_back_ = false;  // A step that was just read, or a check, caused a roll-back.
};

}  // namespace ampd::train
