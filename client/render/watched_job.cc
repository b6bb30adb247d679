#include <algorithm>

#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxPoints = 4096;
constexpr size_t kMaxEvents = 50;

// Every second one, but never a marked one's mark: it moves to the neighbour that stays.
void Halve(std::vector<PlotPoint>* points) {
  std::vector<PlotPoint> kept;
  for (size_t i = 0; i < points->size(); i += 2) {
    kept.push_back((*points)[i]);
    kept.back().marked = kept.back().marked || (i + 1 < points->size() && (*points)[i + 1].marked);
  }
  *points = std::move(kept);
}

template <typename Column>
auto LastOf(const Column& column, typename Column::value_type other) {
  return column.empty() ? other : *column.rbegin();
}

}  // namespace

void WatchedJob::Add(const v1::WatchJobResponse& message) {
  dropped_points_ += message.dropped_points();
  switch (message.kind_case()) {
    case v1::WatchJobResponse::kSnapshot:
      AddJob(message.snapshot());
      break;
    case v1::WatchJobResponse::kFinal:
      AddJob(message.final());
      finished_ = true;
      break;
    case v1::WatchJobResponse::kSteps:
      AddSteps(message.steps());
      break;
    case v1::WatchJobResponse::kEval:
      eval_ = message.eval();
      break;
    case v1::WatchJobResponse::kEvent:
      events_.push_back(message.event());
      if (events_.size() > kMaxEvents) {
        events_.pop_front();
      }
      break;
    case v1::WatchJobResponse::kHeartbeat:
    case v1::WatchJobResponse::KIND_NOT_SET:
      break;
  }
}

void WatchedJob::AddJob(const v1::Job& job) {
  job_ = job;
  const v1::Progress& progress = job.progress();
  if (progress.step() < step_) {
    return;
  }
  step_ = progress.step();
  skipped_ = std::max(skipped_, progress.skipped_steps());
  samples_per_second_ = progress.samples_per_second();
  learning_rate_ = progress.learning_rate();
  grad_norm_ = progress.grad_norm();
  memory_bytes_ = progress.memory_allocated_bytes();
  memory_peak_bytes_ = std::max(memory_peak_bytes_, progress.memory_peak_bytes());
}

void WatchedJob::AddSteps(const v1::StepColumns& steps) {
  const int count = std::min({steps.step_size(), steps.loss_size(), steps.loss_scale_size(), steps.skipped_size()});
  for (int i = 0; i < count; ++i) {
    const int64_t step = steps.step(i);
    // A roll-back or a new attempt: what comes again replaces what was seen.
    while (!losses_.empty() && losses_.back().step >= step) {
      losses_.pop_back();
      scales_.pop_back();
      first_time_micros_ = 0;
    }
    skipped_ += steps.skipped(i) ? 1 : 0;
    step_ = step;
    losses_.push_back({step, steps.loss(i), steps.skipped(i)});
    scales_.push_back({step, steps.loss_scale(i), steps.skipped(i)});
  }
  samples_per_second_ = LastOf(steps.samples_per_second(), static_cast<float>(samples_per_second_));
  learning_rate_ = LastOf(steps.learning_rate(), learning_rate_);
  grad_norm_ = LastOf(steps.grad_norm(), static_cast<float>(grad_norm_));
  memory_bytes_ = LastOf(steps.memory_allocated_bytes(), memory_bytes_);
  memory_peak_bytes_ = std::max(memory_peak_bytes_, LastOf(steps.memory_peak_bytes(), memory_peak_bytes_));
  last_time_micros_ = LastOf(steps.time_unix_micros(), last_time_micros_);
  if (first_time_micros_ == 0) {
    first_step_ = step_;
    first_time_micros_ = last_time_micros_;
  }
  Thin();
}

void WatchedJob::Thin() {
  if (losses_.size() > kMaxPoints) {
    Halve(&losses_);
    Halve(&scales_);
  }
}

absl::Duration WatchedJob::TimeLeft() const {
  const int64_t total = job_.progress().total_steps();
  const int64_t done = step_ - first_step_;
  if (total <= 0 || done <= 0 || last_time_micros_ <= first_time_micros_) {
    return absl::InfiniteDuration();
  }
  const absl::Duration taken = absl::Microseconds(last_time_micros_ - first_time_micros_);
  return taken / done * std::max<int64_t>(0, total - step_);
}

}  // namespace ampd::client
