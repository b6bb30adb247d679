#include <algorithm>
#include <utility>

#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxPoints = 4096;
constexpr size_t kMaxEvents = 50;

// Drops every second point. The mark of a dropped point moves to its neighbour that is kept.
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
  skips_seen_ += std::exchange(skips_since_, 0);
  samples_per_second_ = progress.samples_per_second();
  learning_rate_ = progress.learning_rate();
  grad_norm_ = progress.grad_norm();
  if (progress.has_generator()) {
    generator_loss_ = progress.generator().loss();
  }
  memory_bytes_ = progress.memory_allocated_bytes();
  memory_peak_bytes_ = std::max(memory_peak_bytes_, progress.memory_peak_bytes());
}

void WatchedJob::TakeBackFrom(int64_t step) {
  while (!losses_.empty() && losses_.back().step >= step) {
    int64_t& count = losses_.back().step > job_.progress().step() ? skips_since_ : skips_seen_;
    count -= losses_.back().marked ? 1 : 0;
    losses_.pop_back();
    scales_.pop_back();
    pace_.clear();
  }
}

void WatchedJob::AddSteps(const v1::StepColumns& steps) {
  const int count = std::min({steps.step_size(), steps.loss_size(), steps.loss_scale_size(), steps.skipped_size()});
  for (int i = 0; i < count; ++i) {
    step_ = steps.step(i);
    TakeBackFrom(step_);
    (step_ > job_.progress().step() ? skips_since_ : skips_seen_) += steps.skipped(i) ? 1 : 0;
    losses_.push_back({step_, steps.loss(i), steps.skipped(i)});
    scales_.push_back({step_, steps.loss_scale(i), steps.skipped(i)});
    Thin();
  }
  samples_per_second_ = LastOf(steps.samples_per_second(), static_cast<float>(samples_per_second_));
  learning_rate_ = LastOf(steps.learning_rate(), learning_rate_);
  grad_norm_ = LastOf(steps.grad_norm(), static_cast<float>(grad_norm_));
  if (!steps.generator_loss().empty()) {
    generator_loss_ = *steps.generator_loss().rbegin();
  }
  memory_bytes_ = LastOf(steps.memory_allocated_bytes(), memory_bytes_);
  memory_peak_bytes_ = std::max(memory_peak_bytes_, LastOf(steps.memory_peak_bytes(), memory_peak_bytes_));
  if (steps.time_unix_micros_size() > 0) {
    last_time_micros_ = *steps.time_unix_micros().rbegin();
    AddPace({step_, last_time_micros_});
  }
}

void WatchedJob::AddPace(Pace now) {
  constexpr int64_t kMicros = 1'000'000;
  constexpr int64_t kWindow = 30 * kMicros;
  constexpr int64_t kBetween = kMicros / 4;  // bounds how many points are kept
  // After a gap, such as a pause or a wait for a device, the earlier pace no longer counts.
  if (!pace_.empty() && now.time_micros - pace_.back().time_micros > kWindow) {
    pace_.clear();
  }
  if (pace_.size() > 1 && now.time_micros - pace_[pace_.size() - 2].time_micros < kBetween) {
    pace_.pop_back();
  }
  pace_.push_back(now);
  while (pace_.size() > 2 && now.time_micros - pace_.front().time_micros > kWindow) {
    pace_.pop_front();
  }
}

void WatchedJob::Thin() {
  if (losses_.size() > kMaxPoints) {
    Halve(&losses_);
    Halve(&scales_);
  }
}

int64_t WatchedJob::total_steps() const {
  const int64_t told = job_.progress().total_steps();
  return told > 0 ? told : job_.spec().train().steps();
}

int64_t WatchedJob::skipped() const { return std::max(job_.progress().skipped_steps(), skips_seen_) + skips_since_; }

absl::Duration WatchedJob::StepTime() const {
  if (pace_.empty() || pace_.back().step <= pace_.front().step) {
    return absl::InfiniteDuration();
  }
  const absl::Duration taken = absl::Microseconds(pace_.back().time_micros - pace_.front().time_micros);
  return taken / (pace_.back().step - pace_.front().step);
}

absl::Duration WatchedJob::TimeLeft() const {
  const bool known = job_.state() == v1::Job::RUNNING && total_steps() > 0;
  const absl::Duration step_time = StepTime();
  return known && step_time < absl::InfiniteDuration() ? step_time * std::max<int64_t>(0, total_steps() - step_)
                                                       : absl::InfiniteDuration();
}

double WatchedJob::samples_per_second() const {
  const absl::Duration step_time = StepTime();
  const int batch_size = job_.spec().data().batch_size();
  const bool known = batch_size > 0 && step_time > absl::ZeroDuration() && step_time < absl::InfiniteDuration();
  return known ? batch_size / absl::ToDoubleSeconds(step_time) : samples_per_second_;
}

absl::Duration WatchedJob::Elapsed() const {
  if (!job_.has_start_time()) {
    return -absl::Seconds(1);
  }
  const auto micros = [](const google::protobuf::Timestamp& time) {
    return time.seconds() * 1'000'000 + time.nanos() / 1000;
  };
  const int64_t end = job_.has_end_time() ? micros(job_.end_time()) : last_time_micros_;
  return absl::Microseconds(end - micros(job_.start_time()));
}

}  // namespace ampd::client
