#pragma once

#include <cstdint>
#include <optional>

#include "ampd/internal/trainer.pb.h"
#include "worker/train/loop/training_run.h"
#include "worker/train/plan/attempt_plan.h"

namespace ampd::train {

// Makes the report of an attempt's progress that the trainer sends to the agent. `step`: the number of steps that are
// done.
internal::TrainerState StateReportOf(const AttemptPlan& plan, int64_t step, v1::Attempt::State state);

// The final metrics of a run, except its steps per second and the hash of its last checkpoint. `last`: the run's last
// evaluation.
v1::FinalMetrics FinalMetricsOf(const TrainingRun& run, const std::optional<v1::EvalPoint>& last);

}  // namespace ampd::train
