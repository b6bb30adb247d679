#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/agent/files/checkpoint_remover.h"

namespace ampd::agent {

// Runs a CheckpointRemover on a thread of its own, so that a slow disk delays neither reports nor leases.
//
//   1. agent   Request(paths)          returns the number n of the request
//   2. thread  CheckpointRemover::Remove(paths)
//   3. agent   num_done() >= n         the paths are removed, or stored as pending; only now a report may say that the
//                                      agent has carried out the directive with these paths
//
// Only the agent's loop calls the functions of this class.
class RemovalThread {
 public:
  // The remover's log function must be thread-safe.
  explicit RemovalThread(CheckpointRemover remover) : remover_(std::move(remover)) {}
  ~RemovalThread() { Stop(); }
  RemovalThread(const RemovalThread&) = delete;
  RemovalThread& operator=(const RemovalThread&) = delete;

  // Loads the removals that an earlier agent left pending, and starts the thread. Call at most once.
  void Start();
  // Waits until the request that the thread has begun is carried out, and ends the thread. A request that it has not
  // begun is dropped.
  void Stop();

  // Requests what CheckpointRemover::Remove does with these arguments, and returns the request's number. Replaces an
  // earlier request that the thread has not begun: its paths come again, because the server repeats them, or because
  // Due returns them. If there are no paths, makes no request and returns the number of the newest one.
  uint64_t Request(std::vector<std::string> paths, std::vector<std::string> later, absl::Duration now);
  // The number of the newest request that was carried out.
  uint64_t num_done() const;
  // Returns the pending removals that are due for a retry. `now`: the time since boot.
  std::vector<std::string> Due(absl::Duration now) const;

 private:
  struct Work {
    uint64_t number = 0;
    std::vector<std::string> paths;
    std::vector<std::string> later;
    absl::Duration now;
  };

  void Run();
  bool HasWorkOrIsClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return work_.has_value() || closed_; }

  CheckpointRemover remover_;  // Used by the thread only, once it runs.
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::optional<Work> work_ ABSL_GUARDED_BY(mutex_);  // The newest request, until the thread begins it.
  uint64_t num_requests_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_done_ ABSL_GUARDED_BY(mutex_) = 0;
  CheckpointRemover::Pending pending_ ABSL_GUARDED_BY(mutex_);  // A copy of what `remover_` has pending.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::agent
