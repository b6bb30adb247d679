#pragma once

#include "worker/amp/engine.h"
#include "worker/data/sampler.h"
#include "worker/train/health/divergence_monitor.h"
#include "worker/train/health/numeric_verdict.h"
#include "worker/train/loop/training_run.h"

// Collects the plain numbers by which worker/train/health judges a run.
namespace ampd::train {

// Collects the facts about the run after its last step, which decide the advice for bad numbers.
RunFacts FactsOf(const TrainingRun& run);

// The numbers of the step that was just read, for the divergence monitor. `place`: the position of the step's batch in
// the data. If the loss is not finite, loads the batch again to see whether the loss is a mean over no labels.
StepNumbers NumbersOf(const TrainingRun& run, const amp::StepResult& result, const data::Sampler::Cursor& place);

}  // namespace ampd::train
