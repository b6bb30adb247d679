#pragma once

#include <functional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/timed_wait.h"

namespace ampd::client {

// A request to stop, made once (by Ctrl-C) and seen by whoever waits. Thread-safe.
class Cancellation {
 public:
  // Asks for the stop and runs the current listener.
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

  // Replaces the listener, which is called at once when the stop was asked for already. An empty one only forgets the
  // last; once SetListener returns, that one does not run any more.
  void SetListener(std::function<void()> listener) {
    absl::MutexLock lock(&mutex_);
    listener_ = std::move(listener);
    if (cancelled_ && listener_) {
      listener_();
    }
  }

  // Waits until the stop or `timeout`; true on the stop.
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
