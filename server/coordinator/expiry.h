#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/wall_clock_watch.h"
#include "server/coordinator/state_listener.h"
#include "server/coordinator/updates.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/journal.h"
#include "server/state/retention.h"

namespace ampd::server {

// Makes the changes that are due because time has passed: declares silent workers lost and later removes them, cancels
// jobs at their deadline, restarts jobs whose checkpoint is out of reach, moves ended jobs out of memory, and deletes
// data whose retention is over. Leases, deadlines and waits use the time since the host booted (Clock::SinceBoot),
// which nobody can set. Retention uses the wall clock, as long as that is steady. Single-threaded; owned by the thread
// that calls Coordinator::Tick. ClockIsSteady may be called from any thread.
class Expiry {
 public:
  struct Options {
    Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    WorkerSessions* sessions = nullptr;
    StateListener* listener = nullptr;
    absl::Duration local_checkpoint_wait;
    absl::Duration archive_after;  // Zero: never.
    RetentionPolicy retention;
    absl::Duration worker_retention;  // Zero: never.
  };
  explicit Expiry(const Options& options) : options_(options), clock_watch_(options.clock) {}

  // Compares the wall clock with the newest time in the journal. REQUIRES: called once, before the journal records the
  // start of this run of the server.
  void CheckClock();
  // Makes all changes that are due. Call it every few hundred milliseconds.
  void Tick();

  // Whether the wall clock is steady, so that data may be deleted by its age.
  bool ClockIsSteady() const { return clock_watch_.IsSteady(); }

 private:
  internal::Update NewUpdate() const { return server::NewUpdate(options_.clock->Now()); }

  void ExpireWorkers();
  void Sweep();
  void ArchiveEndedJobs(const ClusterState& state, Updates* updates) const;
  void ExpireDeadlines(const ClusterState& state, Updates* updates);
  void RestartUnreachableJobs(const ClusterState& state, Updates* updates);
  void RemoveLostWorkers(const ClusterState& state, Updates* updates);
  void DeleteExpired();  // Processes a limited number of jobs per call.
  void DeleteExpiredOfHistory(absl::Time now, Updates* updates);

  const Options options_;
  WallClockWatch clock_watch_;
  // For each queued job whose local checkpoint no worker can reach: the time since boot when this was first seen.
  std::map<std::string, absl::Duration> unreachable_since_;
  // For each job with a deadline: the time at which it started, as time since boot.
  std::map<std::string, absl::Duration> started_since_boot_;
  // For each lost worker: the time since boot at which this run of the server first saw that the worker was lost.
  std::map<std::string, absl::Duration> lost_since_;
  absl::Duration next_sweep_;
  absl::Duration next_deletion_;
  EndPosition checked_until_;  // Where DeleteExpiredOfHistory continues in the history table.
};

}  // namespace ampd::server
