#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/timed_wait.h"

namespace ampd::server {

// Calls a function repeatedly on a thread of its own, with a pause before each call. Thread-compatible.
class PeriodicThread {
 public:
  PeriodicThread() = default;
  ~PeriodicThread() { Stop(); }

  // Starts the thread, which calls `work` with the number of calls so far. REQUIRES: not started.
  void Start(absl::Duration pause, std::function<void(int64_t num_calls)> work) {
    thread_ = std::thread([this, pause, work = std::move(work)] {
      for (int64_t num_calls = 0; !AwaitStop(pause); ++num_calls) {
        work(num_calls);
      }
    });
  }
  // Ends the thread. Waits until a call in progress has returned. Idempotent.
  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  bool AwaitStop(absl::Duration pause) {
    absl::MutexLock lock(&mutex_);
    return AwaitFor(mutex_, absl::Condition(&stopping_), pause);
  }

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ampd::server
