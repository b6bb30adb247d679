#pragma once

#include <optional>

#include "ampd/internal/trainer.pb.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// The report to the agent about where the run is. `state`: the state of the attempt.
internal::TrainerState StateReportOf(const TrainingRun& run, v1::Attempt::State state);

// The final metrics of a run, without the rate of its steps and the hash of its last checkpoint. `last`: the run's last
// evaluation.
v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last);

}  // namespace ampd::train
