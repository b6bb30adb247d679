#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/train/checkpoint/checkpoint_saver.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/in_flight_steps.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Carries out what Recovery decides: rolls the run back, or changes its precision, and reports it. Decides nothing.
// Single-threaded; owner: TrainingLoop.
class RecoveryActions {
 public:
  // `run`, `in_flight` and `checkpoints` outlive this object.
  RecoveryActions(TrainingRun& run, InFlightSteps& in_flight, CheckpointSaver& checkpoints)
      : run_(run), in_flight_(in_flight), checkpoints_(checkpoints) {}

  // Reports the decision's findings.
  absl::Status Report(const Decision& decision);
  // Carries out the decision's action, except a replay, which the caller carries out. For kFail, returns an error with
  // the decision's reason. A roll-back drops the steps in flight.
  absl::Status Act(const Decision& decision);

 private:
  absl::Status RollBack(const Decision& decision);
  absl::Status ReturnToSoundState();
  absl::Status Raise(const Decision& decision);
  absl::Status Lower(const Decision& decision);
  absl::Status ReportRaise(const std::string& why);
  absl::Status ReportDamage(const CheckpointSaver::RollBackSource& source);

  TrainingRun& run_;
  InFlightSteps& in_flight_;
  CheckpointSaver& checkpoints_;
};

}  // namespace ampd::train
