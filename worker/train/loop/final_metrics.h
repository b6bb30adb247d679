#pragma once

#include <optional>

#include "ampd/v1/job.pb.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// What a run ended with, without the rate of its steps and the hash of its last checkpoint. `last`: its last
// evaluation.
v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last);

}  // namespace ampd::train
