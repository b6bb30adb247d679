#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Checks whether a worker's report can be true. Workers are programs on other machines, and the server journals, shows
// and counts what they report, so it checks every field. Pure functions.
namespace ampd::server {

// Checks the worker's description of itself. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckRegistration(const v1::WorkerReport& report);

// Checks that the server supports a protocol version that the agent supports. FAILED_PRECONDITION (reason
// WORKER_PROTOCOL_UNSUPPORTED) names both versions of ampd, and says whether to upgrade the server or the worker.
absl::Status CheckProtocol(const v1::WorkerReport& report);

// Explains why the checkpoint can't belong to the attempt. Empty if it can.
std::string FindOddity(const internal::JobRecord& record, const v1::AttemptKey& key, const v1::Checkpoint& checkpoint);

// Explains why the step, the number of steps or the precision in the report can't be true. Empty if they can.
std::string FindOddity(const internal::JobRecord& record, const v1::AttemptReport& report);

// Explains why the attempt can't have ended with this outcome. Empty if it can.
std::string FindOddity(const internal::JobRecord& record, const v1::Attempt& attempt, const v1::Outcome& outcome);

// Returns the outcome that replaces an impossible one: a failure whose message says why. Its reason is NONFINITE_LOSS
// if the only problem is a loss that is not finite, otherwise INTERNAL.
v1::Outcome InPlaceOf(const v1::Outcome& outcome, const std::string& oddity);

}  // namespace ampd::server
