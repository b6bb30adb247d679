#include "worker/train/loop/prediction_loop.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/attempt_error.h"
#include "worker/train/loop/initial_state.h"
#include "worker/train/loop/micro_batches.h"
#include "worker/train/loop/run_summary.h"

namespace ampd::train {

using v1::Event;
using v1::Outcome;

PredictionLoop::PredictionLoop(AttemptPlan plan, const Context& context)
    : context_(context),
      plan_(std::move(plan)),
      telemetry_(context.outbox, context.start.key().attempt()),
      files_(context.start.spec().predict().format(),
             [this](v1::Sample file) { return telemetry_.File(std::move(file)); }) {}

absl::StatusOr<Outcome> PredictionLoop::Run() {
  AMPD_RETURN_IF_ERROR(Prepare());
  has_begun_ = true;
  ReportState(v1::Attempt::RUNNING);
  while (step_ < plan_.total_steps) {
    if (const auto leave = context_.link.leave(); leave.has_value()) {
      return Leave(*leave);
    }
    AMPD_RETURN_IF_ERROR(PredictBatch());
    ReportState(v1::Attempt::RUNNING);
  }
  AMPD_RETURN_IF_ERROR(files_.Finish());
  constexpr absl::Duration kInterval = absl::Milliseconds(100);  // Between checks for an order to leave.
  while (!context_.outbox.AwaitAcknowledged(SystemClock().SinceBoot() + kInterval)) {
    if (const auto leave = context_.link.leave(); leave.has_value()) {
      return Leave(*leave);
    }
    device_watch_.Update();
  }
  Outcome outcome;
  outcome.set_kind(Outcome::FINISHED);
  outcome.set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  outcome.set_message(absl::StrCat("predicted ", files_.num_samples(), " samples and wrote ", files_.num_files(),
                                   files_.num_files() == 1 ? " file" : " files"));
  return outcome;
}

Outcome PredictionLoop::Leave(const internal::LeaveAttempt& leave) {
  ReportState(v1::Attempt::STOPPING);
  Outcome outcome;
  outcome.set_kind(Outcome::LEFT);
  outcome.set_reason(leave.reason());
  return outcome;
}

absl::Status PredictionLoop::Prepare() {
  at::set_num_threads(plan_.num_threads);
  auto engine = amp::Engine::Create(plan_.model, plan_.policy, plan_.engine);
  AMPD_RETURN_IF_ERROR(WithReason(engine.status(), v1::Reason::SPEC_ERROR));
  engine_ = *std::move(engine);
  AMPD_RETURN_IF_ERROR(
      LoadInitialState(context_.start.spec().model(), /*keeps_sources=*/false, plan_, *engine_, telemetry_));
  for (const std::string& warning : plan_.policy.warnings) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::WARNING, 0, warning));
  }
  for (const std::string& note : plan_.data_notes) {
    AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::DATA_READ, 0, note));
  }
  ResetPeakMemory(plan_.engine.device);
  device_watch_.Begin(plan_.engine.device, context_.start.device());
  begin_ = std::chrono::steady_clock::now();
  return absl::OkStatus();
}

absl::Status PredictionLoop::PredictBatch() {
  const int64_t first = step_ * plan_.eval_batch_size;
  std::vector<int64_t> indices(static_cast<size_t>(std::min(plan_.eval_batch_size, plan_.train.size() - first)));
  std::iota(indices.begin(), indices.end(), first);
  const amp::Batch batch = MicroBatchesOf(plan_.train.Get(indices), 1).front();
  const absl::Duration leased_at = context_.lease.AwaitValid(SystemClock());
  const v1::AttemptKey& key = context_.start.key();
  context_.step_log.Started(leased_at, key.job_id(), key.attempt(), step_ + 1);
  const std::vector<amp::Prediction> predictions = engine_->Predict(batch, static_cast<uint64_t>(step_));
  ++step_;
  device_watch_.Update();
  return files_.Add(step_, predictions);
}

void PredictionLoop::ReportState(v1::Attempt::State state) {
  context_.link.ReportState(StateReportOf(plan_, step_, state));
}

v1::FinalMetrics PredictionLoop::metrics() const {
  v1::FinalMetrics metrics;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  metrics.set_steps_per_second(has_begun_ && elapsed.count() > 0 ? static_cast<double>(step_) / elapsed.count() : 0);
  metrics.set_peak_memory_bytes(GetMemory(plan_.engine.device).peak_bytes);
  metrics.set_emulated(plan_.policy.emulated());
  metrics.set_num_threads(plan_.num_threads);
  device_watch_.AddTo(plan_.engine.device, /*graph_bytes=*/0, &metrics);
  return metrics;
}

}  // namespace ampd::train
