#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "base/error.h"

// Errors that end an attempt with a reason of v1.Reason.
namespace ampd::train {

inline absl::Status AttemptError(v1::Reason::Code reason, const std::string& message) {
  return Error(absl::StatusCode::kFailedPrecondition, v1::Reason::Code_Name(reason), message);
}

// Returns the error with `reason` as its reason; OK stays OK.
inline absl::Status WithReason(const absl::Status& status, v1::Reason::Code reason) {
  return status.ok() ? status : AttemptError(reason, std::string(status.message()));
}

}  // namespace ampd::train
