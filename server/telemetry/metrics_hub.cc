#include "server/telemetry/metrics_hub.h"

#include <algorithm>
#include <limits>

namespace ampd::server {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

}  // namespace

Subscription::Taken Subscription::Take() {
  absl::MutexLock lock(&mutex_);
  Taken taken;
  taken.num_dropped = std::exchange(num_dropped_, 0);
  const uint64_t point = points_.empty() ? kNever : points_.front().order;
  const uint64_t event = events_.empty() ? kNever : events_.front().order;
  const uint64_t job = job_.value == nullptr ? kNever : job_.order;
  const uint64_t first = std::min({point, event, job});
  if (overflowed_) {
    taken.kind = Taken::OVERFLOWED;
  } else if (first == kNever) {
    taken.kind = closed_ ? Taken::CLOSED : Taken::NOTHING;
  } else if (first == job) {
    taken.kind = Taken::JOB;
    taken.job = std::exchange(job_.value, nullptr);
  } else {
    auto& entries = first == point ? points_ : events_;
    taken.kind = Taken::ITEM;
    taken.item = std::move(entries.front().value);
    entries.pop_front();
    num_points_ -= taken.item.NumPoints();
  }
  return taken;
}

void Subscription::StartCatchUp() {
  absl::MutexLock lock(&mutex_);
  Clear();
  catching_up_ = true;
  lapped_ = false;
}

bool Subscription::TryGoLive() {
  absl::MutexLock lock(&mutex_);
  if (lapped_) {
    lapped_ = false;
    return false;
  }
  catching_up_ = false;
  return true;
}

void Subscription::Clear() {
  points_.clear();
  events_.clear();
  num_points_ = 0;
}

void Subscription::Add(const std::vector<HistoryItem>& items) {
  {
    absl::MutexLock lock(&mutex_);
    for (const HistoryItem& item : items) {
      AddOne(item);
    }
  }
  on_ready_();
}

void Subscription::AddOne(const HistoryItem& item) {
  const bool is_event = item.event != nullptr;
  (is_event ? events_ : points_).push_back({next_order_++, item});
  num_points_ += item.NumPoints();
  const bool too_many_events = static_cast<int64_t>(events_.size()) > limits_.max_events;
  if (catching_up_ && (too_many_events || num_points_ > limits_.max_points)) {
    lapped_ = true;
    Clear();
    return;
  }
  if (too_many_events) {
    overflowed_ = true;
    Clear();
    return;
  }
  while (num_points_ > limits_.max_points) {
    const int num_points = points_.front().value.NumPoints();
    num_points_ -= num_points;
    num_dropped_ += num_points;
    *total_dropped_ += num_points;
    points_.pop_front();
  }
}

void Subscription::Add(std::shared_ptr<const v1::Job> job) {
  {
    absl::MutexLock lock(&mutex_);
    job_ = {next_order_++, std::move(job)};
  }
  on_ready_();
}

void Subscription::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  on_ready_();
}

std::shared_ptr<Subscription> MetricsHub::Subscribe(const std::string& job, std::function<void()> on_ready) {
  auto subscription = std::make_shared<Subscription>(limits_, std::move(on_ready), total_dropped_);
  absl::MutexLock lock(&mutex_);
  if (closed_) {
    subscription->Close();
  }
  subscriptions_.Add(job, subscription);
  return subscription;
}

std::shared_ptr<void> MetricsHub::SubscribeLog(const std::string& job, std::function<void()> on_stored) {
  auto callback = std::make_shared<std::function<void()>>(std::move(on_stored));
  absl::MutexLock lock(&mutex_);
  logs_.Add(job, callback);
  return callback;
}

std::vector<std::shared_ptr<Subscription>> MetricsHub::SubscriptionsOf(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  return subscriptions_.Of(job);
}

void MetricsHub::PublishHistory(const StoredHistory& stored) {
  for (const std::shared_ptr<Subscription>& subscription : SubscriptionsOf(stored.job)) {
    subscription->Add(stored.items);
  }
}

void MetricsHub::PublishJob(std::shared_ptr<const v1::Job> job) {
  for (const std::shared_ptr<Subscription>& subscription : SubscriptionsOf(job->id())) {
    subscription->Add(job);
  }
}

void MetricsHub::PublishLog(const std::string& job) {
  std::vector<std::shared_ptr<std::function<void()>>> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    callbacks = logs_.Of(job);
  }
  for (const std::shared_ptr<std::function<void()>>& callback : callbacks) {
    (*callback)();
  }
}

void MetricsHub::Close() {
  std::vector<std::shared_ptr<Subscription>> all;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    all = subscriptions_.All();
  }
  for (const std::shared_ptr<Subscription>& subscription : all) {
    subscription->Close();
  }
}

bool MetricsHub::IsWatched(const std::string& job) const {
  absl::MutexLock lock(&mutex_);
  return subscriptions_.Has(job);
}

size_t MetricsHub::num_jobs() const {
  absl::MutexLock lock(&mutex_);
  return subscriptions_.num_jobs() + logs_.num_jobs();
}

}  // namespace ampd::server
