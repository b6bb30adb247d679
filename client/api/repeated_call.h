#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "base/clock.h"
#include "base/grpc/grpc_deadline.h"
#include "base/random.h"
#include "client/api/cancellation.h"
#include "client/api/cancels_call.h"
#include "client/api/end_of_call.h"
#include "client/api/job_client.h"

namespace ampd::client {

template <typename Stub, typename Request, typename Response>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// Returns the pause, changed at random by up to 20%, so that many clients do not retry at the same time.
inline absl::Duration WithJitter(absl::Duration pause) {
  return pause * (0.8 + 0.4 * static_cast<double>(SystemRandom().Next() >> 11) / (1ULL << 53));
}

// Makes a call and retries it on UNAVAILABLE. Without a connection, a retry waits for one, so that it reaches a
// restarted server at once. If a connected server refuses, the pauses between retries are 0.1 s, 0.2 s and so on, up to
// 1 s.
template <typename Request>
absl::StatusOr<v1::Job> CallRepeatedly(v1::JobService::Stub& stub,
                                       Method<v1::JobService::StubInterface, Request, v1::Job> method,
                                       const Request& request, absl::Duration deadline, const JobClient::Retry& retry) {
  const absl::Duration end =
      SystemClock().SinceBoot() + (request.request_id().empty() ? absl::ZeroDuration() : retry.retry_for);
  Cancellation never;
  Cancellation* const cancellation = retry.cancellation == nullptr ? &never : retry.cancellation;
  absl::Duration pause = absl::Milliseconds(100);
  absl::Status unavailable;
  while (true) {
    const bool again = !unavailable.ok();
    grpc::ClientContext context;
    context.set_wait_for_ready(again);
    context.set_deadline(GrpcDeadlineIn(again ? std::min(end - SystemClock().SinceBoot(), deadline) : deadline));
    const CancelsCall cancels(cancellation, &context);
    v1::Job job;
    const absl::Status status = EndOfCall((stub.*method)(&context, request, &job));
    if (status.ok()) {
      return job;
    }
    if (cancellation->cancelled()) {
      return absl::CancelledError("interrupted; see whether the server accepted it: ampctl job list");
    }
    if (again && absl::IsDeadlineExceeded(status)) {
      return unavailable;
    }
    if (!absl::IsUnavailable(status) || SystemClock().SinceBoot() + pause > end) {
      return status;
    }
    if (!again && retry.on_retry) {
      retry.on_retry(status);
    }
    unavailable = status;
    cancellation->WaitFor(WithJitter(pause));
    pause = std::min(pause * 2, absl::Seconds(1));
  }
}

}  // namespace ampd::client
