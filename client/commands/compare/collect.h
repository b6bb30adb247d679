#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/compare/submit_policies.h"
#include "client/compare/report.h"

namespace ampd::client {

// Checks, before the jobs have ended, that one of their policies is the baseline. INVALID_ARGUMENT if none is. Returns
// OK if this can't be known yet, because a job's precision is not chosen or may still be raised.
absl::Status CheckBaselineOfJobs(const std::vector<v1::Job>& jobs, const std::string& baseline);

// Reads the points and the events of the jobs and makes the comparison. `baseline`: see Judge; INVALID_ARGUMENT if no
// policy has this name. REQUIRES: there is at least one job.
absl::StatusOr<Comparison> Collect(JobClient* client, const ComparedJobs& compared, const std::string& baseline,
                                   const Rates& rates);

}  // namespace ampd::client
