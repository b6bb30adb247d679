#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

// The one place that converts between absl::Status and grpc::Status. The details (ErrorInfo, BadRequest, RetryInfo)
// travel as a google.rpc.Status in the trailers, as in gRPC's rich error model.
namespace ampd {

// Converts the error after truncating it with FitToTrailers.
grpc::Status ToGrpcStatus(const absl::Status& uncut);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace ampd
