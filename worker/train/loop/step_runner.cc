#include "worker/train/loop/step_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "c10/util/Exception.h"
#include "precision/loss_scale.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/micro_batches.h"
#include "worker/train/loop/periodic.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;

InFlightSteps::Instant Now() { return std::chrono::steady_clock::now(); }

// Returns the number of a batch's random stream, which is unique over all epochs. `place`: the batch's position in the
// data.
uint64_t RandomStreamOf(const data::Sampler::Cursor& place, const AttemptPlan& plan) {
  return static_cast<uint64_t>(place.epoch) * static_cast<uint64_t>(plan.sampler.num_samples + 1) +
         static_cast<uint64_t>(place.position);
}

// Drops the tensor if something else still uses its memory, because that memory must not be overwritten.
void DropIfShared(at::Tensor& tensor) {
  if (tensor.defined() && (tensor.use_count() > 1 || tensor.storage().use_count() > 1)) {
    tensor = at::Tensor();
  }
}

// Replaces the tensor by one of the same shape in pinned memory, unless the tensor is in pinned memory already. The
// new tensor's content is undefined. Throws c10::Error if there is too little memory that can be pinned.
void Pin(at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_pinned()) {
    tensor = at::empty(tensor.sizes(), tensor.options().pinned_memory(true));
  }
}

}  // namespace

void StepRunner::Begin(bool reports_gradients) {
  if (reports_gradients) {
    run_.engine().SampleNextStep();
  }
  const InFlightSteps::Instant asked = Now();
  data::Batcher::Batch batch = run_.batcher().Next();
  const InFlightSteps::Instant given = Now();
  // Wait for a valid lease only after the wait for data, because the lease may expire during the wait for data. The
  // step's time does not include the wait for the lease.
  const absl::Duration leased_at = lease_.AwaitValid(SystemClock());
  const InFlightSteps::Instant begin = Now() - (given - asked);
  const double data_wait_seconds = std::chrono::duration<double>(given - asked).count();
  const v1::AttemptKey& key = run_.start().key();
  const auto number = run_.step() + static_cast<int64_t>(in_flight_.size()) + 1;
  step_log_.Started(leased_at, key.job_id(), key.attempt(), number);
  std::vector<amp::Batch> micro_batches = MicroBatchesOf(batch.samples, run_.plan().num_micro_batches);
  run_.engine().Enqueue(micro_batches, RandomStreamOf(batch.place, run_.plan()));
  run_.reports().LogGraphFailure(run_.engine().graph_failure());
  std::string why_uneven = run_.reports().reported().uneven ? "" : run_.uneven_batches().WhyUneven(micro_batches);
  in_flight_.Begin({.begin = begin,
                    .place = batch.place,
                    .data_wait_seconds = data_wait_seconds,
                    .reports_gradients = reports_gradients,
                    .why_uneven = std::move(why_uneven),
                    .micro_batches = std::move(micro_batches),
                    .samples = std::move(batch.samples)});
}

size_t StepRunner::MaxInFlight() const {
  const AttemptPlan& plan = run_.plan();
  const int64_t begun = run_.step() + static_cast<int64_t>(in_flight_.size());
  const bool is_boundary = begun == plan.total_steps || HasPeriodicAction(plan, begun);
  const LossScaleConfig& scaling = plan.policy.loss_scale;
  const bool may_raise = scaling.at_floor == LossScaleConfig::AtFloor::kFallBack &&
                         run_.engine().scaler().scale() <= static_cast<float>(scaling.floor);
  return is_boundary || run_.recovery().may_lower() || may_raise || plan.replay_skipped
             ? 0
             : static_cast<size_t>(std::min(plan.steps_ahead, run_.engine().max_pending()));
}

StepRunner::EndedStep StepRunner::Await() {
  EndedStep step{.result = run_.engine().AwaitStep(), .begun = in_flight_.Read(Now())};
  ++run_.progress().step;
  run_.progress().RecordLosses(step.result, /*has_trained=*/run_.engine().applied_steps() > 0);
  return step;
}

absl::Status StepRunner::Report(const EndedStep& step) {
  const AttemptPlan& plan = run_.plan();
  AMPD_RETURN_IF_ERROR(run_.telemetry().Step(run_.step(), step.result, run_.engine().scaler().scale(),
                                             {.seconds = step.begun.seconds,
                                              .data_wait_seconds = step.begun.data_wait_seconds,
                                              .num_samples = plan.sampler.num_in_batch(),
                                              .memory = GetMemory(plan.engine.device),
                                              .work = run_.flops(),
                                              .power_watts = device_watch_.power_watts(),
                                              .utilization = device_watch_.utilization()}));
  StepReports& reports = run_.reports();
  reports.RecordCanary(run_.step(), step.result);
  if (step.begun.reports_gradients) {
    AMPD_RETURN_IF_ERROR(reports.ReportGradients(run_.step(), step.result, plan.policy));
  }
  return reports.ReportUneven(run_.step(), step.begun.why_uneven, "a step's micro-batches");
}

absl::Status StepRunner::ReportActivations(EndedStep& step) {
  return run_.reports().ReportActivations(run_.step(), step.result, [&] {
    step.begun.samples = {};  // If the search ends in an error, its copies of the batch to a GPU may not have ended.
    return run_.engine().FindActivationFault(step.begun.micro_batches, RandomStreamOf(step.begun.place, run_.plan()));
  });
}

void StepRunner::Recycle(EndedStep step) {
  step.begun.micro_batches.clear();
  data::Dataset::Samples& samples = step.begun.samples;
  std::vector<at::Tensor*> tensors = {&samples.images, &samples.labels};
  for (auto& [name, tensor] : samples.others) {
    tensors.push_back(&tensor);
  }
  try {
    for (at::Tensor* const tensor : tensors) {
      DropIfShared(*tensor);
      if (pins_batches_) {
        Pin(*tensor);
      }
    }
  } catch (const c10::Error&) {
    pins_batches_ = false;  // Batches can be copied from other memory, too.
    return;
  }
  run_.batcher().Recycle(std::move(samples));
}

absl::Status StepRunner::Replay(const EndedStep& step) {
  run_.batcher().Seek(step.begun.place);
  const std::string scale = precision::LossScaleText(run_.engine().scaler().scale());
  return run_.telemetry().Event(v1::Event::BATCH_REPLAYED, run_.step(),
                                absl::StrCat("step ", run_.step(), " was skipped; its batch is used again in step ",
                                             run_.step() + 1, ", with a loss scale of ", scale),
                                {{"scale", scale}, {"num_replays", absl::StrCat(run_.recovery().num_replays())}});
}

}  // namespace ampd::train
