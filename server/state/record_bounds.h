#pragma once

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// How large may be what a worker tells and the server keeps: so large that honest workers never notice, and so small
// that every answer that holds it stays below kMaxItemBytes.
namespace ampd::server {

// Cuts what is too long: texts end in "...", attributes and modules beyond the limit are left out, which the message of
// the event then says.
void BoundEvent(v1::Event* event);
void BoundOutcome(v1::Outcome* outcome);

// INVALID_ARGUMENT naming the first field of a report that is larger than any agent makes it, its registration or an
// attempt's; checkpoints and outcomes of attempts among them.
absl::Status CheckReportSizes(const v1::WorkerReport& report);

}  // namespace ampd::server
