#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// Checks everything about a spec that can be known without a worker, and returns it with every default filled in, so
// that no later reader has defaults of its own. `uploaded`: the exported model that the spec names, where it was read;
// null: it is taken unseen. What is returned does not depend on it. Pure.
//
//   INVALID_ARGUMENT  all violations at once, each with path, value and limit
//   UNIMPLEMENTED     nothing is wrong, but a field is set that this server does not support; names the first one
absl::StatusOr<v1::JobSpec> AdmitSpec(const v1::JobSpec& spec, const graph::ExportedModel* uploaded = nullptr);

// Whether a job can take an order to its loss scaler: by the precision that its newest attempt was given, before the
// first one by what it asks for; OK where only a device will decide. What a later precision can't take, the trainer
// holds within its bounds and says so.
//
//   FAILED_PRECONDITION  (reason LOSS_SCALE_OFF) no loss is scaled
//   INVALID_ARGUMENT     the scale is beyond floor or cap
absl::Status AdmitOrder(const v1::LossScaleOrder& order, const v1::Job& job);

// Specs larger than this are refused before anything else is looked at.
inline constexpr int64_t kMaxSpecBytes = 256 << 10;

}  // namespace ampd::server
