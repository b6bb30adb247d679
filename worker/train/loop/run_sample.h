#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Draws and reports the sample of the current step, if the job asks for samples. `must_leave` is asked repeatedly; if
// it returns true, there is no sample, and progress().sample_pending is set. Otherwise that flag is cleared.
absl::Status DrawSampleOf(TrainingRun& run, absl::FunctionRef<bool()> must_leave);

}  // namespace ampd::train
