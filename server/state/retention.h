#pragma once

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"

// When what finished jobs leave is deleted by its age, as pure functions.
namespace ampd::server {

// What the operator asked for. Zero: never.
struct RetentionPolicy {
  absl::Duration history = absl::Hours(24 * 30);      // points, events, logs and samples, after the job's end
  absl::Duration checkpoints = absl::ZeroDuration();  // after the job's end
  bool has_any() const { return history > absl::ZeroDuration() || checkpoints > absl::ZeroDuration(); }
  // The time after a job's end before which nothing of it is due. REQUIRES: has_any().
  absl::Duration shortest() const;
};

enum class RetentionStep { KEEP, DELETE_HISTORY, DELETE_CHECKPOINTS, DELETE_JOB };

// What is due of the job now. The record goes last, once neither history nor checkpoints are left to keep.
RetentionStep NextRetentionStep(const v1::Job& job, const RetentionPolicy& policy, absl::Time now);

// How often to look for what is due. REQUIRES: policy.has_any().
absl::Duration LookInterval(const RetentionPolicy& policy);

// What the policy says of the job, for its owner.
v1::Retention RetentionOf(const v1::Job& job, const RetentionPolicy& policy);

}  // namespace ampd::server
