#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "base/grpc/grpc_status.h"

namespace ampd::client {

// Returns the status with which a call ended. `was_cancelled`: whether this client may have cancelled the call. If it
// has not, CANCELLED is replaced by UNAVAILABLE, so that the caller may retry the call: no method of ampd returns
// CANCELLED, but gRPC does when a server drops the call during its shutdown.
inline absl::Status EndOfCall(const grpc::Status& status, bool was_cancelled = false) {
  absl::Status end = FromGrpcStatus(status);
  return absl::IsCancelled(end) && !was_cancelled
             ? absl::UnavailableError("the server dropped the call; it may be shutting down")
             : end;
}

}  // namespace ampd::client
