#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"

namespace ampd::client {

// A request to a running job that the job answers with an event.
struct JobRequest {
  v1::UpdateJobRequest request;
  v1::Event::Kind answer = v1::Event::KIND_UNSPECIFIED;
  std::string thing;               // what the job reports, with its article: "its gradients"
  std::string asked;               // what happens to the job: "be profiled", as in "only a running job can be profiled"
  std::string program = "ampctl";  // the beginning of suggested commands (Session::Program)
};

// Sends the request and waits until `deadline` (a time since boot) for the first event of the kind `request.answer`.
// Sends the request only after a watch of the job has begun, so that no event is missed. DEADLINE_EXCEEDED
// (WAIT_TIMED_OUT); CANCELLED after Ctrl-C; FAILED_PRECONDITION if the job does not run, or ends first; otherwise the
// server's errors.
absl::StatusOr<v1::Event> AwaitAnswer(JobClient* client, const JobRequest& request, absl::Duration deadline,
                                      Cancellation* interrupt);

}  // namespace ampd::client
