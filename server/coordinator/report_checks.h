#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Whether what a worker reports can be true. Workers are other machines' programs: what they tell is journaled, shown
// and counted, and none of it is taken unseen. Pure functions.
namespace ampd::server {

// Of what the worker says about itself. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckRegistration(const v1::WorkerReport& report);

// Why the checkpoint can't be one of the attempt; empty: it can.
std::string FindOddity(const internal::JobRecord& record, const v1::AttemptKey& key, const v1::Checkpoint& checkpoint);

// Why the attempt can't be where the report says; empty: it can.
std::string FindOddity(const internal::JobRecord& record, const v1::AttemptReport& report);

// Why the attempt can't have ended so; empty: it can.
std::string FindOddity(const internal::JobRecord& record, const v1::Attempt& attempt, const v1::Outcome& outcome);

// What stands in the place of an outcome that can't be: a failure that tells why. Typed NONFINITE_LOSS where the only
// thing wrong is a loss that is no number, else INTERNAL.
v1::Outcome InPlaceOf(const v1::Outcome& outcome, const std::string& oddity);

}  // namespace ampd::server
