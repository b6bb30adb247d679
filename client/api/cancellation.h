#pragma once

#include <functional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/timed_wait.h"

namespace ampd::client {

// A request to stop, made once (by Ctrl-C) and seen by every waiting thread. Thread-safe.
class Cancellation {
 public:
  // Requests the stop and runs the current listener.
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

  // Replaces the listener. A listener is called at once if the stop was requested already. An empty function removes
  // the listener. Once SetListener returns, the previous listener no longer runs.
  void SetListener(std::function<void()> listener) {
    absl::MutexLock lock(&mutex_);
    listener_ = std::move(listener);
    if (cancelled_ && listener_) {
      listener_();
    }
  }

  // Waits until the stop or `timeout`. Returns true if the stop was requested.
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
