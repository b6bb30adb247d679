#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "base/grpc/grpc_status.h"

namespace ampd::client {

// Returns the status with which a call ended. `was_cancelled`: whether this client may have cancelled the call. If
// false, CANCELLED is replaced by UNAVAILABLE, so that the caller may retry. Such a CANCELLED comes from gRPC when a
// server drops the call during its shutdown; no method of ampd returns it.
inline absl::Status EndOfCall(const grpc::Status& status, bool was_cancelled = false) {
  absl::Status end = FromGrpcStatus(status);
  return absl::IsCancelled(end) && !was_cancelled
             ? absl::UnavailableError("the server dropped the call; it may be shutting down")
             : end;
}

}  // namespace ampd::client
