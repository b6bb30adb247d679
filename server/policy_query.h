#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"

namespace ampd::server {

// JobService.ResolvePolicy: the policy against the model's training graph. Errors as the service says. Pure.
absl::StatusOr<v1::PolicyTable> AnswerPolicyQuery(const v1::ResolvePolicyRequest& request);

}  // namespace ampd::server
