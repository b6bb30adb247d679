// Deletes histories, checkpoints and jobs by their age.
#include <algorithm>
#include <string>
#include <utility>

#include "google/protobuf/util/time_util.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/state/job_rules.h"
#include "server/state/retention.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr size_t kMaxChangedAtOnce = 100;
constexpr int kMaxLookedAtAtOnce = 1000;

EndPosition PositionOf(const v1::Job& job) {
  return {TimeUtil::TimestampToMicroseconds(job.end_time()), job.submit_order()};
}

// Fills the update in with what is due of the job; false when nothing is.
bool TakeDue(const v1::Job& job, const RetentionPolicy& policy, absl::Time now, internal::Update* update) {
  const RetentionStep step = NextRetentionStep(job, policy, now);
  if (step == RetentionStep::DELETE_JOB) {
    update->mutable_delete_job()->set_job(job.id());
  } else if (step != RetentionStep::KEEP) {
    update->mutable_trim_job()->set_job(job.id());
    update->mutable_trim_job()->set_history(step == RetentionStep::DELETE_HISTORY);
    update->mutable_trim_job()->set_checkpoints(step == RetentionStep::DELETE_CHECKPOINTS);
  }
  return step != RetentionStep::KEEP;
}

}  // namespace

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
      internal::Update update = NewUpdate();
      if (TakeDue(record.job(), options_.retention, now, &update)) {
        updates->push_back(std::move(update));
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
      internal::Update update = NewUpdate();
      if (TakeDue(record->job(), options_.retention, now, &update)) {
        updates.push_back(std::move(update));
      }
    }
  });
  DeleteExpiredOfHistory(now, &updates);
  CommitQuietly(std::move(updates));
}

}  // namespace ampd::server
