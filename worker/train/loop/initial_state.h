#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job_spec.pb.h"
#include "worker/amp/engine.h"
#include "worker/train/plan/attempt_plan.h"
#include "worker/train/report/telemetry_writer.h"

namespace ampd::train {

// Loads the values from which a job starts into a fresh engine: those of an exported model, then those of a weights
// file. Reports each of the two. Without either, the values that the engine drew stay. Unless `keeps_sources`, removes
// the two sources from the plan afterwards, because each is as large as the model. DATA_ERROR if a value is not finite
// or does not fit the model; SPEC_ERROR if the exported file has names that no checkpoint can hold.
absl::Status LoadInitialState(const v1::ModelSpec& model, bool keeps_sources, AttemptPlan& plan, amp::Engine& engine,
                              TelemetryWriter& telemetry);

}  // namespace ampd::train
