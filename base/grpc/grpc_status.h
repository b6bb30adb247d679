#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

// The one place where absl::Status and grpc::Status meet. Details (ErrorInfo, BadRequest, RetryInfo) travel as a
// google.rpc.Status in the trailers, as gRPC's rich error model has it.
namespace ampd {

// Cut as FitToTrailers says.
grpc::Status ToGrpcStatus(const absl::Status& uncut);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace ampd
