#include "server/telemetry/progress.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "points/telemetry_batch.h"

namespace ampd::server {
namespace {

constexpr int kRestorePage = 4096;
constexpr double kMicros = 1e6;

void SetTime(int64_t unix_micros, google::protobuf::Timestamp* time) {
  time->set_seconds(unix_micros / 1'000'000);
  time->set_nanos(static_cast<int32_t>(unix_micros % 1'000'000) * 1000);
}

// Makes a job's progress from its last outcome, for a finished job that is no longer on the ProgressBoard. If the
// trainer was stopped, the outcome has no final metrics, and parts of the progress are missing.
v1::Progress FromOutcome(const v1::Outcome& outcome, bool predicts) {
  v1::Progress progress;
  const v1::FinalMetrics& metrics = outcome.final_metrics();
  progress.set_step(outcome.last_step());
  if (predicts) {  // A job that predicts has no loss.
    progress.set_memory_peak_bytes(metrics.peak_memory_bytes());
    progress.set_steps_per_second(metrics.steps_per_second());
    return progress;
  }
  if (outcome.last_step() > 0 && outcome.has_final_metrics()) {
    progress.set_loss(metrics.train_loss());
  }
  for (const v1::PhaseLoss& phase : points::PhaseLosses(metrics)) {
    progress.add_phases()->set_name(phase.name());
    progress.mutable_phases()->rbegin()->set_loss(phase.loss());
  }
  progress.set_loss_scale(metrics.final_loss_scale());
  progress.set_skipped_steps(metrics.skipped_steps());
  progress.set_memory_peak_bytes(metrics.peak_memory_bytes());
  progress.set_steps_per_second(metrics.steps_per_second());
  if (metrics.has_eval_loss()) {
    progress.set_eval_loss(metrics.eval_loss());
  }
  if (metrics.has_eval_accuracy()) {
    progress.set_eval_accuracy(metrics.eval_accuracy());
  }
  if (metrics.has_eval_perplexity()) {
    progress.set_eval_perplexity(metrics.eval_perplexity());
  }
  if (metrics.has_eval_top5_accuracy()) {
    progress.set_eval_top5_accuracy(metrics.eval_top5_accuracy());
  }
  if (metrics.has_eval_f1()) {
    progress.set_eval_f1(metrics.eval_f1());
  }
  if (metrics.flops_per_step() > 0) {
    progress.set_flops_per_second(metrics.flops_per_step() * metrics.steps_per_second());
  }
  if (metrics.has_mfu()) {
    progress.set_mfu(metrics.mfu());
  }
  return progress;
}

// Copies the numbers of optional columns, which not every step has, from the last row.
void SetDeviceNumbers(const v1::StepColumns& steps, v1::Progress* progress) {
  const auto last = [](const google::protobuf::RepeatedField<float>& column) -> std::optional<double> {
    return column.empty() || std::isnan(*column.rbegin()) ? std::nullopt
                                                          : std::optional(static_cast<double>(*column.rbegin()));
  };
  if (const std::optional<double> value = last(steps.flops_per_second()); value.has_value()) {
    progress->set_flops_per_second(*value);
  }
  if (const std::optional<double> value = last(steps.mfu()); value.has_value()) {
    progress->set_mfu(*value);
  }
  if (const std::optional<double> value = last(steps.power_watts()); value.has_value()) {
    progress->set_power_watts(*value);
  }
  if (const std::optional<double> value = last(steps.device_utilization()); value.has_value()) {
    progress->set_device_utilization(*value);
  }
  if (const std::optional<double> value = last(steps.memory_reserved_bytes()); value.has_value()) {
    progress->set_memory_reserved_bytes(*value);
  }
  if (const std::optional<double> value = last(steps.allocation_retries()); value.has_value()) {
    progress->set_allocation_retries(*value);
  }
}

void AddEval(const v1::EvalPoint& eval, v1::Progress* progress) {
  progress->set_eval_loss(eval.loss());
  if (eval.has_perplexity()) {
    progress->set_eval_perplexity(eval.perplexity());
  } else if (eval.has_accuracy()) {
    progress->set_eval_accuracy(eval.accuracy());
  }
  if (eval.has_top5_accuracy()) {
    progress->set_eval_top5_accuracy(eval.top5_accuracy());
  }
  if (eval.has_f1()) {
    progress->set_eval_f1(eval.f1());
  }
}

// Returns the time that the row's step took per sample; 0 if the row has no valid rate.
double SecondsPerSample(const v1::StepColumns& steps, int row) {
  const double rate = static_cast<double>(steps.samples_per_second(row));
  return rate > 0 && std::isfinite(rate) ? 1 / rate : 0;
}

// Returns one bit for each phase of the step. A model with several losses has one phase for each loss. The bit is set
// if the phase skipped its update in this row.
uint32_t SkippedPhases(const v1::StepColumns& steps, int row) {
  uint32_t phases = 0;
  for (int i = 0; i < steps.phases_size(); ++i) {
    phases |= static_cast<uint32_t>(steps.phases(i).skipped(row)) << i;
  }
  return phases;
}

}  // namespace

int64_t TotalSteps(const v1::Job& job) {
  int64_t total = job.spec().train().steps();
  // Take the number of steps from any attempt that knows it. All attempts have the same, because their data is the
  // same.
  for (const v1::Attempt& attempt : job.attempts()) {
    total = attempt.total_steps() > 0 ? attempt.total_steps() : total;
  }
  return total;
}

void ProgressBoard::Update(const StoredHistory& stored) {
  absl::MutexLock lock(&mutex_);
  for (const HistoryItem& item : stored.items) {
    if (item.event == nullptr) {
      AddItem(item, &jobs_[stored.job]);
    }
  }
}

void ProgressBoard::AddItem(const HistoryItem& item, State* state) {
  if (item.attempt < state->entry.attempt) {
    return;
  }
  if (item.attempt > state->entry.attempt) {
    // A new attempt continues the loss curve from a checkpoint, so the skipped steps of the curve are kept. All other
    // values start over.
    State fresh;
    fresh.entry.attempt = item.attempt;
    fresh.skipped_steps = std::move(state->skipped_steps);
    CountSkips(&fresh);
    *state = std::move(fresh);
  }
  if (item.steps != nullptr) {
    AddSteps(*item.steps, state);
  } else {
    AddEval(*item.eval, &state->entry.progress);
  }
}

void ProgressBoard::CountSkips(State* state) {
  v1::Progress& progress = state->entry.progress;
  const auto& skipped = state->skipped_steps;
  progress.set_skipped_steps(static_cast<int64_t>(skipped.size()));
  for (int i = 0; i < progress.phases_size(); ++i) {
    progress.mutable_phases(i)->set_skipped_steps(std::count_if(
        skipped.begin(), skipped.end(), [i](const SkippedStep& step) { return (step.phases >> i & 1) != 0; }));
  }
}

// Adds the energy used since the previous step. REQUIRES: called once for each row, in order.
void ProgressBoard::AddEnergy(const v1::StepColumns& steps, int row, State* state) {
  const int64_t before = std::exchange(state->last_time_unix_micros, steps.time_unix_micros(row));
  if (steps.power_watts().empty() || std::isnan(steps.power_watts(row))) {
    return;
  }
  const int64_t elapsed = before == 0 ? 0 : std::max<int64_t>(0, steps.time_unix_micros(row) - before);
  state->entry.energy_joules = state->entry.energy_joules.value_or(0) +
                               static_cast<double>(steps.power_watts(row)) * static_cast<double>(elapsed) / kMicros;
}

// Copies the numbers of each phase (each of several losses) from the last row.
void ProgressBoard::AddPhases(const v1::StepColumns& steps, State* state) {
  v1::Progress& progress = state->entry.progress;
  const int last = points::NumSteps(steps) - 1;
  for (int i = 0; i < steps.phases_size(); ++i) {
    const v1::PhaseColumns& columns = steps.phases(i);
    v1::PhaseProgress& phase = i < progress.phases_size() ? *progress.mutable_phases(i) : *progress.add_phases();
    phase.set_name(columns.name());
    phase.set_loss(static_cast<double>(columns.loss(last)));
    phase.set_grad_norm(static_cast<double>(columns.grad_norm(last)));
  }
}

void ProgressBoard::AddSteps(const v1::StepColumns& steps, State* state) {
  Entry& entry = state->entry;
  v1::Progress& progress = entry.progress;
  for (int i = 0; i < points::NumSteps(steps); ++i) {
    const double scale = steps.loss_scale(i);
    const double seconds_per_sample = SecondsPerSample(steps, i);
    if (state->num_steps++ == 0) {
      state->first_time_unix_micros = steps.time_unix_micros(i);
      state->last_loss_scale = scale;
      entry.first_seconds_per_sample = seconds_per_sample;
    }
    entry.seconds_per_sample += seconds_per_sample;
    entry.num_scale_ups += scale > state->last_loss_scale ? 1 : 0;
    entry.num_scale_downs += scale < state->last_loss_scale ? 1 : 0;
    state->last_loss_scale = scale;
    // A step that is repeated, after a rollback or in a later attempt, replaces its earlier version and all steps after
    // that.
    while (!state->skipped_steps.empty() && state->skipped_steps.back().step >= steps.step(i)) {
      state->skipped_steps.pop_back();
    }
    if (steps.skipped(i)) {
      state->skipped_steps.push_back({steps.step(i), SkippedPhases(steps, i)});
      entry.last_overflow_unix_micros = steps.time_unix_micros(i);
    }
    AddEnergy(steps, i, state);
    progress.set_data_wait_seconds(progress.data_wait_seconds() + static_cast<double>(steps.data_wait_seconds(i)));
  }
  AddPhases(steps, state);
  CountSkips(state);
  const int last = points::NumSteps(steps) - 1;
  progress.set_step(steps.step(last));
  progress.set_loss(static_cast<double>(steps.loss(last)));
  progress.set_grad_norm(static_cast<double>(steps.grad_norm(last)));
  progress.set_loss_scale(steps.loss_scale(last));
  progress.set_learning_rate(steps.learning_rate(last));
  progress.set_samples_per_second(static_cast<double>(steps.samples_per_second(last)));
  progress.set_memory_allocated_bytes(steps.memory_allocated_bytes(last));
  progress.set_memory_peak_bytes(std::max<int64_t>(progress.memory_peak_bytes(), steps.memory_peak_bytes(last)));
  SetDeviceNumbers(steps, &progress);
  SetTime(steps.time_unix_micros(last), progress.mutable_time());
  const int64_t elapsed = steps.time_unix_micros(last) - state->first_time_unix_micros;
  entry.step_seconds = static_cast<double>(elapsed) / kMicros;
  if (elapsed > 0) {
    progress.set_steps_per_second(static_cast<double>(state->num_steps - 1) / entry.step_seconds);
  }
}

absl::Status ProgressBoard::Restore(MetricStore* store, const std::string& job) {
  StoredHistory history{job, 0, {}, {}};
  HistoryCursor cursor;
  for (bool more = true; more;) {
    AMPD_ASSIGN_OR_RETURN(const PointPage page, store->Read([&](MetricReader& reader) {
      return reader.ReadPoints(job, cursor.attempt, cursor.sequence, kRestorePage);
    }));
    history.items = MergeHistory(page.segments, {}, /*more_points=*/false, /*more_events=*/false);
    Update(history);
    for (const HistoryItem& item : history.items) {
      item.Advance(&cursor);
    }
    more = page.more && !history.items.empty();
  }
  return absl::OkStatus();
}

void ProgressBoard::Forget(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  jobs_.erase(job);
}

void ProgressBoard::ForgetAllBut(const std::set<std::string>& jobs) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(jobs_, [&](const auto& entry) { return !jobs.contains(entry.first); });
}

std::optional<ProgressBoard::Entry> ProgressBoard::Find(const std::string& job) const {
  absl::MutexLock lock(&mutex_);
  auto found = jobs_.find(job);
  return found == jobs_.end() ? std::nullopt : std::optional(found->second.entry);
}

void ProgressBoard::AddTo(v1::Job* job) const {
  v1::Progress* progress = job->mutable_progress();
  if (std::optional<Entry> entry = Find(job->id())) {
    *progress = entry->progress;
  } else if (!job->attempts().empty() && job->attempts().rbegin()->has_outcome()) {
    *progress = FromOutcome(job->attempts().rbegin()->outcome(), job->spec().has_predict());
  }
  progress->set_total_steps(TotalSteps(*job));
  progress->set_samples(progress->step() * job->spec().data().batch_size());
}

}  // namespace ampd::server
