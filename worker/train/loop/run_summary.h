#pragma once

#include <optional>

#include "ampd/internal/trainer.pb.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Makes the report of the run's progress that the trainer sends to the agent. `state`: the attempt's state.
internal::TrainerState StateReportOf(const TrainingRun& run, v1::Attempt::State state);

// The final metrics of a run, except its steps per second and the hash of its last checkpoint. `last`: the run's last
// evaluation.
v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last);

}  // namespace ampd::train
