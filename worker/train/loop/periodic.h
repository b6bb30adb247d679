#pragma once

#include <cstdint>

#include "worker/train/plan/attempt_plan.h"

namespace ampd::train {

// Whether an action that is repeated every `every_steps` steps is due after this step. `every_steps` 0: never.
inline bool IsDue(int64_t step, int64_t every_steps) { return every_steps > 0 && step % every_steps == 0; }

// Whether an evaluation, a sample or a checkpoint is due after this step.
inline bool HasPeriodicAction(const AttemptPlan& plan, int64_t step) {
  return IsDue(step, plan.eval_every_steps) || IsDue(step, plan.checkpoint_every_steps) ||
         IsDue(step, plan.sample_every_steps());
}

}  // namespace ampd::train
