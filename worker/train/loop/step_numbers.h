#pragma once

#include "worker/amp/engine.h"
#include "worker/data/sampler.h"
#include "worker/train/health/divergence_monitor.h"
#include "worker/train/health/numeric_verdict.h"
#include "worker/train/loop/training_run.h"

// Collects the plain numbers by which worker/train/health judges a run.
namespace ampd::train {

// Facts about the run as it is after the last step.
RunFacts FactsOf(const TrainingRun& run);

// The numbers of the step that was just read, whose batch is at `place`. If the loss is not finite, reads that batch's
// labels again.
StepNumbers NumbersOf(const TrainingRun& run, const amp::StepResult& result, const data::Sampler::Cursor& place);

}  // namespace ampd::train
