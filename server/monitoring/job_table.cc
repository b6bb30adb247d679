#include "server/monitoring/job_table.h"

#include <algorithm>
#include <utility>

#include "server/state/job_rules.h"

namespace ampd::server {

std::string QueueNameOf(const v1::Job& job) { return job.spec().queue().empty() ? "default" : job.spec().queue(); }

std::shared_ptr<const v1::Job> JobTable::Put(std::shared_ptr<const v1::Job> job, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Row& row = rows_[job->id()];
  std::shared_ptr<const v1::Job> before = std::exchange(row.job, std::move(job));
  if (IsTerminal(row.job->state()) && row.end == absl::InfiniteFuture()) {
    row.end = now;
  }
  return before;
}

std::string JobTable::TraceparentOf(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto row = rows_.find(id);
  return row == rows_.end() ? "" : row->second.job->traceparent();
}

void JobTable::Remove(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  rows_.erase(id);
}

std::vector<std::shared_ptr<const v1::Job>> JobTable::Shown(absl::Time now) {
  std::vector<std::shared_ptr<const v1::Job>> shown;
  absl::MutexLock lock(&mutex_);
  std::erase_if(rows_, [&](const auto& entry) { return entry.second.end + linger_ <= now; });
  for (const auto& [id, row] : rows_) {
    shown.push_back(row.job);
  }
  std::sort(shown.begin(), shown.end(),
            [](const auto& a, const auto& b) { return a->submit_order() < b->submit_order(); });
  return shown;
}

}  // namespace ampd::server
