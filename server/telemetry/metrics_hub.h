#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/job.pb.h"
#include "server/telemetry/history.h"

namespace ampd::server {

// What one watcher of a job has not taken yet. Bounded, whatever the watcher does:
//
//   CATCHING_UP  the watcher reads the store. Overflow only sets `lapped`: the store has it all.
//   LIVE         points beyond the bound are dropped oldest first and counted; events are never dropped: beyond their
//                bound the subscription OVERFLOWED and the watcher has to come again with its resume token.
//
// Of job records only the newest is kept. Thread-safe.
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
    int64_t num_dropped = 0;  // points dropped since the last Take that told
  };

  // `on_ready` is called, from any thread and possibly too often, when there is something to take; also once more after
  // the subscription is gone, so it must hold what it touches weakly.
  Subscription(const Limits& limits, std::function<void()> on_ready,
               std::shared_ptr<std::atomic<int64_t>> total_dropped)
      : limits_(limits), on_ready_(std::move(on_ready)), total_dropped_(std::move(total_dropped)) {}

  // The oldest entry.
  Taken Take();
  // Begins to catch up: what is held is let go.
  void StartCatchUp();
  // True when nothing was lost since StartCatchUp, and from here on the subscription is live. False when it was
  // lapped: the watcher has to read the store to its end once more.
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

// Passes what became durable on to those who watch. It keeps nothing itself: without a watcher a publication is a look
// into a table. Items are shared between watchers. Thread-safe.
class MetricsHub {
 public:
  explicit MetricsHub(const Subscription::Limits& limits) : limits_(limits) {}
  MetricsHub() : MetricsHub(Subscription::Limits()) {}

  // A subscription that catches up; it ends when the last reference is gone.
  std::shared_ptr<Subscription> Subscribe(const std::string& job, std::function<void()> on_ready);
  // Is called when more of the log of any attempt of the job became durable, until the returned reference is gone.
  std::shared_ptr<void> SubscribeLog(const std::string& job, std::function<void()> on_stored);

  // REQUIRES: the items are durable; calls for one job come in the order of the store.
  void PublishHistory(const StoredHistory& stored);
  void PublishJob(std::shared_ptr<const v1::Job> job);
  void PublishLog(const std::string& job);
  // Ends all subscriptions, also those still to come: the server leaves.
  void Close();

  bool IsWatched(const std::string& job) const;
  int64_t num_subscriptions() const;
  int64_t num_points_dropped() const { return total_dropped_->load(); }

 private:
  std::vector<std::shared_ptr<Subscription>> SubscriptionsOf(const std::string& job);

  const Subscription::Limits limits_;
  const std::shared_ptr<std::atomic<int64_t>> total_dropped_ = std::make_shared<std::atomic<int64_t>>(0);
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, std::vector<std::weak_ptr<Subscription>>> subscriptions_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::vector<std::weak_ptr<std::function<void()>>>> logs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
