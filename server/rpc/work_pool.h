#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ampd::server {

// Threads for work that may block on the disk, so that no gRPC thread does. At most `capacity` tasks wait. When that
// many wait, TryPost returns false and the caller sheds load. Thread-safe.
class WorkPool {
 public:
  WorkPool(int num_threads, size_t capacity) : num_threads_(num_threads), capacity_(capacity) {}
  ~WorkPool() { Stop(); }

  void Start();
  // Returns false when too many tasks wait, or after Stop. `then`, if any, runs on the task's thread after the task is
  // destroyed and the thread counts as free. Therefore a client that is answered in `then` finds the task's resources
  // released and the thread ready for its next call.
  bool TryPost(std::function<void()> task, std::function<void()> then = nullptr);
  // As TryPost, but also returns false if no thread is free to begin the task at once.
  bool TryPostIfIdle(std::function<void()> task, std::function<void()> then = nullptr);
  // Runs all posted tasks and returns when they are done. Idempotent; REQUIRES: not called by a task.
  void Stop();

 private:
  struct Posted {
    std::function<void()> task;
    std::function<void()> then;
  };
  void Work();
  bool HasTaskOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !tasks_.empty(); }

  const int num_threads_;
  const size_t capacity_;
  std::vector<std::thread> threads_;
  absl::Mutex mutex_;
  std::deque<Posted> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
