#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "server/coordinator/state_listener.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/ledger.h"
#include "server/state/placement_table.h"

namespace ampd::server {

// Places waiting jobs on free devices, on a thread of its own, so that no answer to a client or a worker waits for
// placement. Other threads only mark which jobs and workers changed. RunOnce updates its table from the published
// records of those jobs and workers, chooses assignments, and commits them.
//
//   1. OnPublished, OnSessionChanged, Wake -> the changed jobs and workers are marked, and the thread wakes up
//   2. RunOnce                             -> reads the marked records, and commits assignments
//   3. the state refuses an assignment that was based on an outdated record -> the job is marked, and considered again
//      with the next change or Wake
//
// Several marks of one job or worker count as one. When there are more than kMaxMarks, the marks are dropped and the
// table is filled from the whole state. Thread-safe, except that only one thread calls RunOnce: after Start, the
// scheduler's own thread; without Start (in simulation and tests), the caller's thread.
class Scheduler {
 public:
  static constexpr size_t kMaxMarks = 65'536;

  struct Options {
    Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;  // Thread-safe.
    const WorkerSessions* sessions = nullptr;
    StateListener* listener = nullptr;
  };
  explicit Scheduler(const Options& options) : options_(options) {}
  ~Scheduler() { Stop(); }

  // The scheduler gives no job to a worker before this time (since boot). REQUIRES: called before the first RunOnce.
  void HoldUntil(absl::Duration since_boot) { hold_until_ = since_boot; }
  void Start();
  // Stops the thread. No job is placed afterwards. Idempotent.
  void Stop();

  void OnPublished(const Publication& publication);
  // Call this when the worker has reported, and when its session has ended or is about to end.
  void OnSessionChanged(const std::string& worker);
  // Call it every few hundred milliseconds, because a job's wait for its retry ends without an event.
  void Wake();

  // Places the jobs that can begin now. Returns how many assignments it committed.
  size_t RunOnce();

  // Returns the number of comparisons of a job with a device so far. Call it on the thread that calls RunOnce.
  int64_t num_examined() const { return table_.num_examined(); }

 private:
  struct Marks {
    bool all = false;  // Everything changed; the sets below are empty.
    std::set<std::string> jobs;
    std::set<std::string> workers;
    std::set<std::string> settled;  // Jobs whose assignment was committed or refused.
  };
  // Published records, all read at one moment. A null pointer means that the job or the worker no longer exists.
  struct Records {
    std::vector<std::pair<std::string, JobRecordPtr>> jobs;
    std::vector<std::pair<std::string, WorkerRecordPtr>> workers;
  };

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_awake_ || stopping_; }
  void LimitMarks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  void Update(const Marks& marks);
  Records ReadMarked(const Marks& marks) const;
  Records ReadAll() const;
  void Commit(const Placement& placement);
  void OnSettled(const std::string& job);

  const Options options_;
  absl::Duration hold_until_ = -absl::InfiniteDuration();
  PlacementTable table_;

  absl::Mutex mutex_;
  Marks marks_ ABSL_GUARDED_BY(mutex_) = {.all = true, .jobs = {}, .workers = {}, .settled = {}};
  bool is_awake_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ampd::server
