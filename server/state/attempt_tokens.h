#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Fencing: each attempt has a secret token, and only a sender that knows the token may act for the attempt.
namespace ampd::server {

// Returns the error FAILED_PRECONDITION with reason FENCED: the sender is not the attempt's current owner.
absl::Status Fenced(const v1::AttemptKey& key);

// Finds the attempt with the key's number, and checks that the key has the attempt's token. The pointer lives as long
// as the record. NOT_FOUND if the job never had such an attempt or no longer keeps it; FENCED if the token differs.
absl::StatusOr<const v1::Attempt*> FindAttemptByToken(const internal::JobRecord& record, const v1::AttemptKey& key);

// Whether the attempt ended with an outcome that it or its shim reported.
bool EndedByItself(const v1::Attempt& attempt);

// Returns the key of the job's newest attempt. REQUIRES: the job has an attempt.
v1::AttemptKey NewestKey(const internal::JobRecord& record);

// Returns "job/attempt", without the token.
std::string NameOf(const v1::AttemptKey& key);

}  // namespace ampd::server
