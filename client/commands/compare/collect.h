#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/compare/submit_policies.h"
#include "client/compare/report.h"

namespace ampd::client {

// Reads the points and the events of the jobs and makes the comparison. `baseline`: see Judge; INVALID_ARGUMENT if no
// policy has this name. REQUIRES: there is at least one job.
absl::StatusOr<Comparison> Collect(JobClient* client, const ComparedJobs& compared, const std::string& baseline,
                                   const Rates& rates);

}  // namespace ampd::client
