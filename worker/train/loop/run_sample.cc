#include "worker/train/loop/run_sample.h"

#include <chrono>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "worker/train/sample/sample_drawing.h"

namespace ampd::train {

absl::Status DrawSampleOf(TrainingRun& run, absl::FunctionRef<bool()> must_leave) {
  const AttemptPlan& plan = run.plan();
  run.progress().sample_pending = false;
  if (!plan.sample.has_value()) {
    return absl::OkStatus();
  }
  const auto begin = std::chrono::steady_clock::now();
  AMPD_ASSIGN_OR_RETURN(
      std::optional<v1::Sample> sample,
      DrawSample(*plan.sample, *plan.engine.generator, plan.engine.seed, run.step(), run.engine(), must_leave));
  if (!sample.has_value()) {
    run.progress().sample_pending = true;
    return absl::OkStatus();
  }
  const auto end = std::chrono::steady_clock::now();
  return run.telemetry().Sample(*std::move(sample), std::chrono::duration<double>(end - begin).count());
}

}  // namespace ampd::train
