#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job_spec.pb.h"
#include "worker/amp/engine.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Loads a job's initial values into a new engine: first those of an exported model, then those of a weights file.
// Reports each load. If the job has neither, the engine keeps its random initial values. Unless `keeps_sources`,
// removes the loaded values from the plan, because each source is as large as the model. DATA_ERROR if a value is not
// finite or does not fit the model; SPEC_ERROR if the exported model has tensor names that checkpoints can't store.
absl::Status LoadInitialState(const v1::ModelSpec& model, bool keeps_sources, AttemptPlan& plan, amp::Engine& engine,
                              TelemetryWriter& telemetry);

}  // namespace ampd::train
