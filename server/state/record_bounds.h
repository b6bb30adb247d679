#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Size limits for what workers report and the server keeps. They are large enough that honest workers never reach them,
// and small enough that every answer with such a record stays below kMaxItemBytes.
namespace ampd::server {

// Truncates fields that are too long. Texts then end in "..."; excess attributes and modules are dropped, and the
// message of the event says so.
void BoundEvent(v1::Event* event);
void BoundOutcome(v1::Outcome* outcome);

// INVALID_ARGUMENT naming all fields of a report that are larger than any agent makes them. Checks the registration and
// the attempts with their checkpoints and outcomes.
absl::Status CheckReportSizes(const v1::WorkerReport& report);

}  // namespace ampd::server
