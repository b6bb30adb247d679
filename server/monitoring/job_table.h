#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"

namespace ampd::server {

// The jobs that /metrics shows: live jobs, and jobs that ended less than `linger` ago. Ended jobs stay for that time so
// that their last values are scraped. Thread-safe.
class JobTable {
 public:
  explicit JobTable(absl::Duration linger) : linger_(linger) {}

  // Stores the record. Returns the job's previous record, or null if there was none. The caller compares the two
  // records to count what changed.
  std::shared_ptr<const v1::Job> Put(std::shared_ptr<const v1::Job> job, absl::Time now);
  void Remove(const std::string& id);
  // Returns the traceparent of the job; empty if the job is not in the table or has none.
  std::string TraceparentOf(const std::string& id);

  // Returns the jobs to show, in submit order.
  std::vector<std::shared_ptr<const v1::Job>> Shown(absl::Time now);

 private:
  struct Row {
    std::shared_ptr<const v1::Job> job;
    absl::Time end = absl::InfiniteFuture();
  };
  const absl::Duration linger_;
  absl::Mutex mutex_;
  std::unordered_map<std::string, Row> rows_ ABSL_GUARDED_BY(mutex_);
};

// Returns the name of the job's queue as metric labels show it.
std::string QueueNameOf(const v1::Job& job);

}  // namespace ampd::server
