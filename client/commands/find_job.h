#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/api/job_client.h"

namespace ampd::client {

// Returns the id of the job that a user means by `text`: the id itself, or the name of one job, or the beginning of one
// job's id. A text in the form of a whole id is returned as it is, without a call. NOT_FOUND if no job matches.
// INVALID_ARGUMENT (JOB_AMBIGUOUS) if several do; Session::Fail then lists them.
absl::StatusOr<std::string> FindJobId(JobClient* client, const std::string& text);

}  // namespace ampd::client
