#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Draws and reports the sample of the current step, if the job asks for samples. Calls `must_leave` repeatedly while
// drawing. When `must_leave` returns true, stops without a sample and sets progress().sample_pending; otherwise clears
// sample_pending.
absl::Status DrawSampleOf(TrainingRun& run, absl::FunctionRef<bool()> must_leave);

}  // namespace ampd::train
