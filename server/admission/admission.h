#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::server {

// Checks everything about a spec that can be known without a worker. Returns the spec with every default filled in, so
// that no later reader needs defaults of its own. `uploaded` is the exported model that the spec names. If it is null,
// the model was not read, and its content is not checked. The returned spec does not depend on `uploaded`. Pure.
//
//   INVALID_ARGUMENT  all violations at once, each with path, value and limit
//   UNIMPLEMENTED     nothing is wrong, but a field is set that this server does not support; names the first one
absl::StatusOr<v1::JobSpec> AdmitSpec(const v1::JobSpec& spec, const graph::ExportedModel* uploaded = nullptr);

// Whether the text has the form of a job's id: "j-" and 16 characters. No job may have such a name, because commands
// would take the name for an id (client/commands/find_job.cc).
bool HasFormOfJobId(const std::string& text);

// Checks an order, which is a live change of a job's loss scaler. The order is checked against the loss-scale rule and
// the precision of the job's newest attempt or, before the first attempt, against the precision that the spec requests.
// If that precision depends on the device, and no device is chosen yet, at least one of the possible precisions must
// scale the loss. If a later attempt has another precision, its trainer clamps the scale to the bounds of that
// precision and reports it.
//
//   FAILED_PRECONDITION  (reason LOSS_SCALE_OFF) the job does not scale its loss
//   INVALID_ARGUMENT     the scale is below the floor, above the cap or, if these are not known, too large for fp32
absl::Status AdmitOrder(const v1::LossScaleOrder& order, const internal::JobRecord& record);

// The maximum size of a spec. Larger specs are refused before any other check.
inline constexpr int64_t kMaxSpecBytes = 256 << 10;

}  // namespace ampd::server
