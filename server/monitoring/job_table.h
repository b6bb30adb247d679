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

// The jobs that /metrics tells about: live ones, and those that ended less than the linger ago, so that the last values
// are scraped. Thread-safe.
class JobTable {
 public:
  explicit JobTable(absl::Duration linger) : linger_(linger) {}

  // The record that was there before, or null: what changed is what counters count.
  std::shared_ptr<const v1::Job> Put(std::shared_ptr<const v1::Job> job, absl::Time now);
  void Remove(const std::string& id);

  // By submit order.
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

// The queue's name as labels show it.
std::string QueueOf(const v1::Job& job);

}  // namespace ampd::server
