#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/job.pb.h"
#include "server/telemetry/history.h"
#include "server/telemetry/job_listeners.h"

namespace ampd::server {

// A buffer for one watcher of a job. It holds items that the watcher has not taken yet, and is bounded even if the
// watcher takes nothing:
//
//   CATCHING_UP  The watcher reads the store. On overflow the buffer is cleared and `lapped` is set, because the store
//                has everything.
//   LIVE         If there are too many metric points, the oldest are dropped and counted. Events are never dropped: if
//                there are too many, the subscription is OVERFLOWED, and the watcher must watch again with its resume
//                token.
//
// The buffer keeps only the newest of the job's records. Thread-safe.
class Subscription {
 public:
  struct Limits {
    int64_t max_points = 65536;
    int64_t max_events = 4096;
  };
  struct Taken {
    enum Kind { NOTHING, ITEM, JOB, OVERFLOWED, CLOSED };
    Kind kind = NOTHING;
    HistoryItem item;
    std::shared_ptr<const v1::Job> job;
    int64_t num_dropped = 0;  // Metric points dropped since the last Take.
  };

  // `on_ready` is called from any thread when there is something to take, and sometimes when there is nothing. It may
  // be called once more after the subscription was destroyed, so it must hold only weak references.
  Subscription(const Limits& limits, std::function<void()> on_ready,
               std::shared_ptr<std::atomic<int64_t>> total_dropped)
      : limits_(limits), on_ready_(std::move(on_ready)), total_dropped_(std::move(total_dropped)) {}

  // Removes and returns the oldest entry.
  Taken Take();
  // Starts to catch up and clears the buffered metric points and events.
  void StartCatchUp();
  // Ends the catch-up if nothing was lost since StartCatchUp: returns true, and the subscription is then live. Returns
  // false if the buffer overflowed; the watcher must then read the store to its end once more.
  bool TryGoLive();

 private:
  friend class MetricsHub;
  template <typename T>
  struct Ordered {
    uint64_t order;
    T value;
  };

  void Add(const std::vector<HistoryItem>& items);
  void Add(std::shared_ptr<const v1::Job> job);
  void Close();
  void AddOne(const HistoryItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const std::function<void()> on_ready_;
  const std::shared_ptr<std::atomic<int64_t>> total_dropped_;

  absl::Mutex mutex_;
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Ordered<HistoryItem>> points_ ABSL_GUARDED_BY(mutex_);
  std::deque<Ordered<HistoryItem>> events_ ABSL_GUARDED_BY(mutex_);
  Ordered<std::shared_ptr<const v1::Job>> job_ ABSL_GUARDED_BY(mutex_) = {0, nullptr};
  int64_t num_points_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool catching_up_ ABSL_GUARDED_BY(mutex_) = true;
  bool lapped_ ABSL_GUARDED_BY(mutex_) = false;
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Passes durable history on to watchers. It stores nothing; publishing to a job without watchers costs one table
// lookup. Items are shared between watchers. Thread-safe.
class MetricsHub {
 public:
  explicit MetricsHub(const Subscription::Limits& limits) : limits_(limits) {}
  MetricsHub() : MetricsHub(Subscription::Limits()) {}

  // Returns a subscription that is catching up. It ends when the last reference is released. REQUIRES: the caller knows
  // that the job exists.
  std::shared_ptr<Subscription> Subscribe(const std::string& job, std::function<void()> on_ready);
  // Calls `on_stored` whenever more of the log of any attempt of the job became durable, until the returned reference
  // is released. REQUIRES: the caller knows that the job exists.
  std::shared_ptr<void> SubscribeLog(const std::string& job, std::function<void()> on_stored);

  // Passes the items to the job's watchers. REQUIRES: the items are durable, and calls for one job come in the store's
  // order.
  void PublishHistory(const StoredHistory& stored);
  void PublishJob(std::shared_ptr<const v1::Job> job);
  void PublishLog(const std::string& job);
  // Ends all open subscriptions and every later one, because the server shuts down.
  void Close();

  // Whether the job has subscriptions, or had some that ended a short time ago.
  bool IsWatched(const std::string& job) const;
  // Returns the number of jobs for which the hub keeps subscriptions or callbacks for logs. A job with both counts
  // twice. JobListeners says when the hub forgets a job.
  size_t num_jobs() const;
  int64_t num_points_dropped() const { return total_dropped_->load(); }

 private:
  std::vector<std::shared_ptr<Subscription>> SubscriptionsOf(const std::string& job);

  const Subscription::Limits limits_;
  const std::shared_ptr<std::atomic<int64_t>> total_dropped_ = std::make_shared<std::atomic<int64_t>>(0);
  mutable absl::Mutex mutex_;
  JobListeners<Subscription> subscriptions_ ABSL_GUARDED_BY(mutex_);
  JobListeners<std::function<void()>> logs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
