#pragma once

#include <functional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/timed_wait.h"

namespace ampd::client {

// A request to stop, made once (by Ctrl-C) and seen by every waiting thread. Thread-safe.
class Cancellation {
 public:
  // Requests the stop and calls the listener, if there is one.
  void Cancel() {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (listener_) {
      listener_();
    }
  }

  bool cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  // Sets the listener, a function that Cancel calls. If Cancel was called already, calls the listener at once. An empty
  // function removes the listener. Once SetListener returns, the previous listener no longer runs.
  void SetListener(std::function<void()> listener) {
    absl::MutexLock lock(&mutex_);
    listener_ = std::move(listener);
    if (cancelled_ && listener_) {
      listener_();
    }
  }

  // Waits until the stop is requested, or for `timeout`. Returns true if it was requested.
  bool WaitFor(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    AwaitFor(mutex_, absl::Condition(&cancelled_), timeout);
    return cancelled_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> listener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
