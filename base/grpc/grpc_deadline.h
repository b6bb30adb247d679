#pragma once

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>

#include "absl/time/time.h"

namespace ampd {

// The deadline that lies `timeout` from now, by the monotonic clock. It can be given to gRPC wherever gRPC takes a
// deadline.
inline gpr_timespec GrpcDeadlineIn(absl::Duration timeout) {
  return timeout == absl::InfiniteDuration() ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
                                             : gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN);
}

}  // namespace ampd
