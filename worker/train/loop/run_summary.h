#pragma once

#include <optional>

#include "ampd/internal/trainer.pb.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Where a run is, for the agent.
internal::TrainerState StateReportOf(const TrainingRun& run, v1::Attempt::State state);

// What a run ended with, without the rate of its steps and the hash of its last checkpoint. `last`: its last
// evaluation.
v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last);

}  // namespace ampd::train
