#pragma once

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"

// Decides when data of finished jobs is deleted by its age, as pure functions.
namespace ampd::server {

// The operator's settings. Zero: never.
struct RetentionPolicy {
  absl::Duration history = absl::Hours(24 * 30);      // Points, events, logs and samples, after the job's end.
  absl::Duration checkpoints = absl::ZeroDuration();  // After the job's end.
  bool has_any() const { return history > absl::ZeroDuration() || checkpoints > absl::ZeroDuration(); }
  // The shortest of the retention times that are not zero: until it has passed after a job's end, none of the job's
  // data is due for deletion. REQUIRES: has_any().
  absl::Duration shortest() const;
};

enum class RetentionStep { KEEP, DELETE_HISTORY, DELETE_CHECKPOINTS, DELETE_JOB };

// The deletion that is due for the job now. The record is deleted last: when the history is due and no checkpoints have
// to be kept any longer.
RetentionStep NextRetentionStep(const v1::Job& job, const RetentionPolicy& policy, absl::Time now);

// How often to check for due deletions. REQUIRES: policy.has_any().
absl::Duration LookInterval(const RetentionPolicy& policy);

// When the policy deletes the job's data, to show it to the job's owner.
v1::Retention RetentionOf(const v1::Job& job, const RetentionPolicy& policy);

}  // namespace ampd::server
