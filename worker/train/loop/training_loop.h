#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/trainer.pb.h"
#include "base/ipc/compute_lease.h"
#include "worker/train/checkpoint/checkpoint_saver.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/evaluations.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/loop/recovery_actions.h"
#include "worker/train/loop/run_summary.h"
#include "worker/train/loop/step_runner.h"
#include "worker/train/loop/training_run.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/report/agent_link.h"
#include "worker/train/report/step_log.h"
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
// The last evaluation and the last sample follow the last checkpoint, so that neither their failure nor a kill loses
// trained state; an attempt that resumes from that checkpoint still makes them. The last loss is in the outcome, not in
// the checkpoint. An earlier checkpoint follows the sample of its step, so an attempt that resumes from it does not
// draw that sample again.
//
// If the loop is ordered to leave while it draws a sample, it stops drawing. If that was a sample before the last step,
// the exit checkpoint records the sample as pending, and the next attempt draws it before its first step.
//
// On a GPU the next step is begun before the numbers of the last one are read, so that the device never waits for the
// host. A reaction to those numbers therefore finds one more step in flight. Every step that was begun is read before
// an order, an evaluation, a sample, a checkpoint and the end.
//
// A checkpoint costs the loop a copy of the state in memory. It is written while training continues, and reported once
// it is durable. The next checkpoint, a roll-back, leaving and the end wait until it is durable. An error of the write
// ends the attempt at the next step boundary.
//
// The loop leaves at a step boundary, with a checkpoint, or without one on a cancel. If the numbers go wrong beyond
// recovery, on_divergence decides: report it and continue, end the attempt, or roll back to the newest checkpoint (the
// start if there is none) up to three times per job. With roll-back on, no checkpoint is made while the numbers look
// bad, so the newest one is always good. A plain roll-back continues with the data after the place where it went wrong.
// A roll-back that raises the precision repeats the same data, and the raise may be reverted after a quiet period.
// LibTorch's errors leave Run() as exceptions. Single-threaded; owner: the trainer's main thread.
class TrainingLoop {
 public:
  // Every member outlives the loop.
  struct Context {
    const internal::StartAttempt& start;
    AgentLink& link;
    TelemetryOutbox& outbox;
    CheckpointStore& checkpoints;
    StepLog& step_log;
    const ComputeLease& lease;
  };

  TrainingLoop(AttemptPlan plan, const Context& context);

  // Returns how the attempt ended, without last_sequence. Errors carry the reason of a v1.Reason.
  absl::StatusOr<v1::Outcome> Run();

  // Waits for a checkpoint that is being written, because it counts no matter how the run ended. REQUIRES: Run() has
  // returned.
  void AwaitCheckpoint() { checkpoints_.Join(); }

  int64_t step() const { return run_.step(); }
  // Whether the initial state or checkpoint was loaded and training has begun.
  bool has_begun() const { return has_begun_; }
  v1::FinalMetrics metrics() const;

 private:
  absl::Status Prepare();
  absl::Status Resume();
  absl::Status RunPendingActions();
  absl::Status ApplyOrders();
  absl::Status EndStep();
  absl::Status EndSteps();
  absl::Status RunPeriodicActions();
  absl::Status React(const Decision& decision);
  absl::Status CheckState();
  absl::Status CheckTrained();
  absl::Status SaveCheckpoint();
  absl::StatusOr<v1::Outcome> Finish();
  absl::StatusOr<v1::Outcome> Leave(const internal::LeaveAttempt& leave);

  bool must_leave() const { return context_.link.leave().has_value(); }
  void ReportState(v1::Attempt::State state) { context_.link.ReportState(StateReportOf(run_, state)); }

  const Context context_;
  TelemetryWriter telemetry_;
  TrainingRun run_;
  StepRunner steps_;
  FiniteChecks finite_checks_;
  Evaluations evaluations_;
  CheckpointSaver checkpoints_;
  RecoveryActions recovery_actions_;
  bool has_begun_ = false;
  bool rolled_back_ = false;  // A step that was just read, or a check, caused a roll-back.
};

}  // namespace ampd::train
