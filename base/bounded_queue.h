#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/timed_wait.h"

namespace ampd {

// A queue between threads that holds at most `capacity` items. When it is full, TryPush fails and Push waits. After
// Close, Push and TryPush fail, but the items already in the queue can still be popped. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  // REQUIRES: capacity >= 1.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Adds an item without waiting. Returns false if the queue is full or closed.
  bool TryPush(T item) { return Push(std::move(item), absl::ZeroDuration()); }

  // Adds an item. If the queue is full, waits up to `timeout` for a free slot. Returns false if the queue stays full or
  // is closed.
  bool Push(T item, absl::Duration timeout = absl::InfiniteDuration()) {
    absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(this, &BoundedQueue::HasRoomOrClosed), timeout);
    if (closed_ || items_.size() >= capacity_) {
      return false;
    }
    items_.push_back(std::move(item));
    return true;
  }

  // Removes the first item and returns it. If the queue is empty, waits up to `timeout` for an item. Returns nullopt
  // after the timeout, or if the queue is closed and empty.
  std::optional<T> Pop(absl::Duration timeout = absl::InfiniteDuration()) {
    absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(this, &BoundedQueue::HasItemOrClosed), timeout);
    if (items_.empty()) {
      return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  bool closed() const {
    absl::MutexLock lock(&mutex_);
    return closed_;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  bool HasRoomOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || items_.size() < capacity_; }
  bool HasItemOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !items_.empty(); }

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd
