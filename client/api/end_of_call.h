#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "base/grpc/grpc_status.h"

namespace ampd::client {

// The error with which a call ended. `was_cancelled`: whether this client may have cancelled the call itself. If it has
// not, CANCELLED becomes UNAVAILABLE: no method of ampd answers so, but gRPC does if a server that shuts down drops a
// call. The call may then be repeated like one that did not reach the server.
inline absl::Status EndOfCall(const grpc::Status& status, bool was_cancelled = false) {
  absl::Status end = FromGrpcStatus(status);
  return absl::IsCancelled(end) && !was_cancelled
             ? absl::UnavailableError("the server dropped the call; it may be shutting down")
             : end;
}

}  // namespace ampd::client
