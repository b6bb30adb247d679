// What is deleted by its age.
#include <algorithm>
#include <string>
#include <utility>

#include "google/protobuf/util/time_util.h"
#include "server/coordinator.h"
#include "server/job_rules.h"
#include "server/ledger.h"
#include "server/retention.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr size_t kMaxChangedAtOnce = 100;
constexpr int kMaxLookedAtAtOnce = 1000;

EndPosition PositionOf(const v1::Job& job) {
  return {TimeUtil::TimestampToMicroseconds(job.end_time()), job.submit_order()};
}

}  // namespace

absl::Duration Coordinator::DeletionInterval() const {
  if (!options_.retention.has_any()) {
    return absl::Minutes(1);
  }
  return std::clamp(options_.retention.shortest(), absl::Seconds(1), absl::Minutes(1));
}

void Coordinator::DeleteExpired(const v1::Job& job, absl::Time now, Updates* updates) const {
  switch (NextRetentionStep(job, options_.retention, now)) {
    case RetentionStep::KEEP:
      return;
    case RetentionStep::DELETE_JOB:
      updates->emplace_back(NewUpdate()).mutable_delete_job()->set_job(job.id());
      return;
    case RetentionStep::DELETE_HISTORY:
      updates->emplace_back(NewUpdate()).mutable_trim_job()->set_job(job.id());
      updates->back().mutable_trim_job()->set_history(true);
      return;
    case RetentionStep::DELETE_CHECKPOINTS:
      updates->emplace_back(NewUpdate()).mutable_trim_job()->set_job(job.id());
      updates->back().mutable_trim_job()->set_checkpoints(true);
      return;
  }
}

void Coordinator::DeleteExpiredOfHistory(absl::Time now, Updates* updates) {
  EndPosition after;
  {
    absl::MutexLock lock(&mutex_);
    after = looked_at_;
  }
  const int64_t before = absl::ToUnixMicros(now - options_.retention.shortest());
  for (int num_looked_at = 0; num_looked_at < kMaxLookedAtAtOnce && updates->size() < kMaxChangedAtOnce;) {
    const auto records = options_.ledger->history().ListEnded(after, before, kMaxLookedAtAtOnce);
    if (!records.ok() || records->empty()) {
      after = EndPosition();  // what was passed over is looked at again, as a job whose checkpoints another needs
      break;
    }
    for (const std::string& bytes : *records) {
      internal::JobRecord record;
      if (updates->size() >= kMaxChangedAtOnce) {
        break;
      }
      ++num_looked_at;
      if (!record.ParseFromString(bytes)) {
        continue;
      }
      after = PositionOf(record.job());
      const size_t num_before = updates->size();
      DeleteExpired(record.job(), now, updates);
      if (updates->size() > num_before && updates->back().has_delete_job()) {
        *updates->back().mutable_delete_job()->mutable_archived() = std::move(record);
      }
    }
  }
  absl::MutexLock lock(&mutex_);
  looked_at_ = after;
}

void Coordinator::DeleteExpired() {
  if (!options_.retention.has_any() || !clock_watch_.IsSteady()) {
    return;
  }
  const absl::Time now = options_.clock->Now();
  Updates updates;
  options_.ledger->Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      if (updates.size() >= kMaxChangedAtOnce) {
        return;
      }
      DeleteExpired(record->job(), now, &updates);
    }
  });
  DeleteExpiredOfHistory(now, &updates);
  CommitQuietly(std::move(updates));
}

}  // namespace ampd::server
