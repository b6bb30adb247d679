// Deletes histories, checkpoints and jobs by their age.
#include <algorithm>
#include <string>
#include <utility>

#include "google/protobuf/util/time_util.h"
#include "server/coordinator/expiry.h"
#include "server/state/job_rules.h"
#include "server/state/retention.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr size_t kMaxChangedAtOnce = 100;
constexpr int kMaxCheckedAtOnce = 1000;

EndPosition PositionOf(const v1::Job& job) {
  return {TimeUtil::TimestampToMicroseconds(job.end_time()), job.submit_order()};
}

// Fills in the update with the retention step that is due for the job. Returns false if no step is due.
bool AddDueStep(const v1::Job& job, const RetentionPolicy& policy, absl::Time now, internal::Update* update) {
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

void Expiry::DeleteExpiredOfHistory(absl::Time now, Updates* updates) {
  const int64_t before = absl::ToUnixMicros(now - options_.retention.shortest());
  for (int num_checked = 0; num_checked < kMaxCheckedAtOnce && updates->size() < kMaxChangedAtOnce;) {
    const auto records = options_.ledger->history().ListEnded(checked_until_, before, kMaxCheckedAtOnce);
    if (!records.ok() || records->empty()) {
      // The history table has no more jobs, or can't be read. The next call begins again with the oldest job: this
      // pass skipped jobs whose checkpoints another job needed, and those may not be needed any more.
      checked_until_ = EndPosition();
      break;
    }
    for (const std::string& bytes : *records) {
      internal::JobRecord record;
      if (updates->size() >= kMaxChangedAtOnce) {
        break;
      }
      ++num_checked;
      if (!record.ParseFromString(bytes)) {
        continue;
      }
      checked_until_ = PositionOf(record.job());
      internal::Update update = NewUpdate();
      if (AddDueStep(record.job(), options_.retention, now, &update)) {
        updates->push_back(std::move(update));
      }
    }
  }
}

void Expiry::DeleteExpired() {
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
      if (AddDueStep(record->job(), options_.retention, now, &update)) {
        updates.push_back(std::move(update));
      }
    }
  });
  DeleteExpiredOfHistory(now, &updates);
  CommitAll(options_.ledger, std::move(updates));
}

}  // namespace ampd::server
