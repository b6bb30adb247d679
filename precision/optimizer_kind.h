#pragma once

#include "ampd/v1/job_spec.pb.h"
#include "precision/formats.h"

namespace ampd::precision {

// The kind of the spec's optimizer, as ResolvePolicy needs it. An unset optimizer is AdamW.
inline OptimizerKind KindOf(const v1::OptimizerSpec& optimizer) {
  return optimizer.has_sgd() ? OptimizerKind::kSgd : OptimizerKind::kAdam;
}

// The kind of optimizer with which the job runs.
inline OptimizerKind KindOf(const v1::JobSpec& spec) {
  return spec.has_predict() ? OptimizerKind::kNone : KindOf(spec.optimizer());
}

}  // namespace ampd::precision
