#pragma once

#include "ampd/v1/job_spec.pb.h"
#include "precision/formats.h"

namespace ampd::precision {

// What a policy has to know of the spec's optimizer. One that is not set is AdamW.
inline OptimizerKind KindOf(const v1::OptimizerSpec& optimizer) {
  return optimizer.has_sgd() ? OptimizerKind::kSgd : OptimizerKind::kAdam;
}

}  // namespace ampd::precision
