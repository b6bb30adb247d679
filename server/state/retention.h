#pragma once

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"

// Decides when a finished job's data is old enough to be deleted, as pure functions.
namespace ampd::server {

// The operator's settings. Zero means that the data is never deleted.
struct RetentionPolicy {
  absl::Duration history = absl::Hours(24 * 30);      // After a job's end: for metric points, events, logs, samples.
  absl::Duration checkpoints = absl::ZeroDuration();  // For checkpoints, from the job's end.
  bool has_any() const { return history > absl::ZeroDuration() || checkpoints > absl::ZeroDuration(); }
  // Returns the shortest retention time that is not zero. Until it has passed after a job's end, none of the job's data
  // is due for deletion. REQUIRES: has_any().
  absl::Duration shortest() const;
};

enum class RetentionStep { KEEP, DELETE_HISTORY, DELETE_CHECKPOINTS, DELETE_JOB };

// Returns the deletion that is due for the job now. The record is deleted last: when the history is due and no
// checkpoints have to be kept any longer.
RetentionStep NextRetentionStep(const v1::Job& job, const RetentionPolicy& policy, absl::Time now);

// Returns the interval between checks for due deletions. REQUIRES: policy.has_any().
absl::Duration LookInterval(const RetentionPolicy& policy);

// Returns the times at which the policy deletes the job's data; the job's owner sees them.
v1::Retention RetentionOf(const v1::Job& job, const RetentionPolicy& policy);

}  // namespace ampd::server
