#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"

namespace ampd::server {

// JobService.EstimateJob: the memory of a job's training step, for each way it may run. Errors as the service says.
// Pure; milliseconds.
absl::StatusOr<v1::EstimateJobResponse> AnswerMemoryQuery(const v1::EstimateJobRequest& request);

}  // namespace ampd::server
