#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ampd::server {

// Threads for work that may block on the disk, so that gRPC's threads never block. At most `capacity` tasks wait. If
// that many wait, TryPost returns false without accepting the task, and the caller refuses the request. Thread-safe.
class WorkPool {
 public:
  WorkPool(int num_threads, size_t capacity) : num_threads_(num_threads), capacity_(capacity) {}
  ~WorkPool() { Stop(); }

  void Start();
  // Posts a task. Returns false if too many tasks wait, or after Stop. `then`, if given, runs on the task's thread when
  // the task has been destroyed and the thread counts as free. A client that is answered in `then` can therefore rely
  // on two things: the task's resources are released, and the thread is free for the client's next call.
  bool TryPost(std::function<void()> task, std::function<void()> then = nullptr);
  // Posts a task if a thread is free to begin it at once; otherwise returns false. `then` has the same meaning as for
  // TryPost.
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
