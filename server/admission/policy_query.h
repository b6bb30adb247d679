#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// Answers JobService.ResolvePolicy: resolves the policy against the model's training graph. `uploaded` is the exported
// model that the request names; null if it was not read. Errors are documented at the service. Pure.
absl::StatusOr<v1::PolicyTable> AnswerPolicyQuery(const v1::ResolvePolicyRequest& request,
                                                  const graph::ExportedModel* uploaded = nullptr);

}  // namespace ampd::server
