#include <algorithm>
#include <utility>

#include "client/render/watch_screen.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxPoints = 4096;
constexpr size_t kMaxEvents = 50;

// Removes every second point. If a removed point is marked, the point before it gets the mark.
void Halve(std::vector<PlotPoint>* points) {
  std::vector<PlotPoint> kept;
  for (size_t i = 0; i < points->size(); i += 2) {
    kept.push_back((*points)[i]);
    kept.back().marked = kept.back().marked || (i + 1 < points->size() && (*points)[i + 1].marked);
  }
  *points = std::move(kept);
}

}  // namespace

void WatchedJob::Add(const v1::WatchJobResponse& message) {
  dropped_points_ += message.dropped_points();
  if (message.has_progress()) {
    SetProgress(message.progress());
  }
  switch (message.kind_case()) {
    case v1::WatchJobResponse::kSnapshot:
      job_ = message.snapshot();
      break;
    case v1::WatchJobResponse::kFinal:
      job_ = message.final();
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

// Replaces the progress by the progress that came with metric points. The new progress lacks the fields that depend
// only on the spec, so these fields keep their values.
void WatchedJob::SetProgress(const v1::Progress& progress) {
  const int64_t total_steps = job_.progress().total_steps();
  const int64_t predicted_bytes = job_.progress().memory_predicted_bytes();
  *job_.mutable_progress() = progress;
  job_.mutable_progress()->set_total_steps(total_steps);
  job_.mutable_progress()->set_memory_predicted_bytes(predicted_bytes);
}

void WatchedJob::TakeBackFrom(int64_t step) {
  while (!losses_.empty() && losses_.back().step >= step) {
    losses_.pop_back();
    scales_.pop_back();
    pace_.clear();
  }
}

void WatchedJob::AddSteps(const v1::StepColumns& steps) {
  const int count = std::min({steps.step_size(), steps.loss_size(), steps.loss_scale_size(), steps.skipped_size()});
  for (int i = 0; i < count; ++i) {
    TakeBackFrom(steps.step(i));
    losses_.push_back({steps.step(i), steps.loss(i), steps.skipped(i)});
    scales_.push_back({steps.step(i), steps.loss_scale(i), steps.skipped(i)});
    Thin();
  }
  if (count > 0 && steps.time_unix_micros_size() > 0) {
    last_time_micros_ = *steps.time_unix_micros().rbegin();
    AddPace({losses_.back().step, last_time_micros_});
  }
}

void WatchedJob::AddPace(Pace now) {
  constexpr int64_t kMicros = 1'000'000;
  constexpr int64_t kWindow = 30 * kMicros;
  constexpr int64_t kBetween = kMicros / 4;  // minimum time between kept points, which limits their number
  // After a gap, such as a pause or a wait for a device, remove the earlier steps, so that the speed does not include
  // the gap.
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
  const int64_t reported = job_.progress().total_steps();
  return reported > 0 ? reported : job_.spec().train().steps();
}

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
  return known && step_time < absl::InfiniteDuration()
             ? step_time * std::max<int64_t>(0, total_steps() - progress().step())
             : absl::InfiniteDuration();
}

double WatchedJob::samples_per_second() const {
  const absl::Duration step_time = StepTime();
  const int batch_size = job_.spec().data().batch_size();
  const bool known = batch_size > 0 && step_time > absl::ZeroDuration() && step_time < absl::InfiniteDuration();
  if (known) {
    return batch_size / absl::ToDoubleSeconds(step_time);
  }
  // The progress of a job that ended long ago has the mean number of steps per second, but no number of samples per
  // second.
  return progress().samples_per_second() > 0 ? progress().samples_per_second()
                                             : batch_size * progress().steps_per_second();
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
