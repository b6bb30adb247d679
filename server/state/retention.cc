#include "server/state/retention.h"

#include <algorithm>

#include "google/protobuf/util/time_util.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;

absl::Time EndOf(const v1::Job& job) { return absl::FromUnixMicros(TimeUtil::TimestampToMicroseconds(job.end_time())); }

google::protobuf::Duration ToProto(absl::Duration duration) {
  return TimeUtil::MicrosecondsToDuration(absl::ToInt64Microseconds(duration));
}

}  // namespace

absl::Duration RetentionPolicy::shortest() const {
  if (history == absl::ZeroDuration() || checkpoints == absl::ZeroDuration()) {
    return std::max(history, checkpoints);
  }
  return std::min(history, checkpoints);
}

RetentionStep NextRetentionStep(const v1::Job& job, const RetentionPolicy& policy, absl::Time now) {
  if (!IsTerminal(job.state())) {
    return RetentionStep::KEEP;
  }
  const auto is_due = [&](absl::Duration kept) { return kept > absl::ZeroDuration() && EndOf(job) < now - kept; };
  const bool history_is_due = is_due(policy.history);
  const bool has_checkpoints = !job.checkpoints().empty();
  const bool checkpoints_are_due = is_due(policy.checkpoints);
  if (history_is_due && (!has_checkpoints || checkpoints_are_due)) {
    return RetentionStep::DELETE_JOB;
  }
  if (history_is_due && !job.history_deleted()) {
    return RetentionStep::DELETE_HISTORY;
  }
  return has_checkpoints && checkpoints_are_due ? RetentionStep::DELETE_CHECKPOINTS : RetentionStep::KEEP;
}

absl::Duration LookInterval(const RetentionPolicy& policy) {
  return std::clamp(policy.shortest(), absl::Seconds(1), absl::Minutes(1));
}

v1::Retention RetentionOf(const v1::Job& job, const RetentionPolicy& policy) {
  v1::Retention retention;
  const auto due = [&](absl::Duration kept) {
    return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(EndOf(job) + kept));
  };
  const bool has_ended = IsTerminal(job.state());
  if (policy.history > absl::ZeroDuration()) {
    *retention.mutable_history() = ToProto(policy.history);
    if (has_ended && !job.history_deleted()) *retention.mutable_history_delete_time() = due(policy.history);
  }
  if (policy.checkpoints > absl::ZeroDuration()) {
    *retention.mutable_checkpoints() = ToProto(policy.checkpoints);
    if (has_ended && !job.checkpoints().empty()) {
      *retention.mutable_checkpoints_delete_time() = due(policy.checkpoints);
    }
  }
  return retention;
}

}  // namespace ampd::server
