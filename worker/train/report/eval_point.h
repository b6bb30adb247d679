#pragma once

#include <string>

#include "ampd/v1/job.pb.h"
#include "graph/heads.h"
#include "worker/amp/eval_sums.h"

// Reports the results of an evaluation.
namespace ampd::train {

// The results of an evaluation of a model with this head. The caller sets step, sequence and time. REQUIRES: at least
// one sample was evaluated.
v1::EvalPoint EvalPointOf(graph::Head head, const amp::EvalSums& sums);

// Copies the point's numbers into the attempt's final metrics.
void AddEvalPoint(const v1::EvalPoint& point, v1::FinalMetrics* metrics);

// The metrics besides the loss, for the trainer's log: ", accuracy 0.9012, top-5 0.9961, F1 0.8998".
std::string QualityText(const v1::EvalPoint& point);

}  // namespace ampd::train
