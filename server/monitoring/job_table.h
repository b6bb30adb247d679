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

// The jobs that /metrics shows: live jobs, and those that ended less than `linger` ago, so that their last values are
// scraped. Thread-safe.
class JobTable {
 public:
  explicit JobTable(absl::Duration linger) : linger_(linger) {}

  // Stores the record. Returns the job's previous record, or null, so that counters can count what changed.
  std::shared_ptr<const v1::Job> Put(std::shared_ptr<const v1::Job> job, absl::Time now);
  void Remove(const std::string& id);
  // The traceparent of the job; empty if the table does not have the job, or the job has none.
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

// The name of the job's queue, as it appears in metric labels.
std::string QueueNameOf(const v1::Job& job);

}  // namespace ampd::server
