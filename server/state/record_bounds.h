#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Size limits for data that workers report and the server keeps. Honest workers never reach these limits. Every answer
// with such data stays below kMaxItemBytes.
namespace ampd::server {

// Truncates fields that are too long. Truncated texts end in "..."; excess attributes and modules are dropped, and the
// message of the event says so.
void BoundEvent(v1::Event* event);
void BoundOutcome(v1::Outcome* outcome);

// Returns INVALID_ARGUMENT naming all fields of a report that exceed their limits; no real agent sends such fields.
// Checks the registration, and the attempts with their checkpoints and outcomes.
absl::Status CheckReportSizes(const v1::WorkerReport& report);

}  // namespace ampd::server
