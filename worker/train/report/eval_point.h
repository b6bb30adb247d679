#pragma once

#include <string>

#include "ampd/v1/job.pb.h"
#include "graph/heads.h"
#include "worker/amp/eval_sums.h"

// What an evaluation tells.
namespace ampd::train {

// Of a model with this head, without step, sequence and time. REQUIRES: something was evaluated.
v1::EvalPoint EvalPointOf(graph::Head head, const amp::EvalSums& sums);

// Puts the point's numbers among an attempt's last ones.
void AddEvalPoint(const v1::EvalPoint& point, v1::FinalMetrics* metrics);

// ", accuracy 0.9012, top-5 0.9961, F1 0.8998": what there is beside the loss, for the trainer's log.
std::string QualityText(const v1::EvalPoint& point);

}  // namespace ampd::train
