#pragma once

#include "absl/time/time.h"
#include "client/commands/command.h"

// Shared by the commands that create a job.
namespace ampd::client {

// How long to retry if --retry-for is not given.
inline constexpr absl::Duration kDefaultRetry = absl::Seconds(10);

// Returns how to retry: for `retry_for`, with a message at the first retry, until Ctrl-C. REQUIRES: called before
// Session::Client().
JobClient::Retry RetryOf(Session* session, absl::Duration retry_for);

// Prints the created job's id and commands to type next.
void ReportAccepted(Session* session, const v1::Job& job);

struct CloneOptions {
  std::string id;
  std::string name;                   // name of the created job; empty: the same as the other job's
  bool from_last_checkpoint = false;  // true: start with the other job's last checkpoint; false: start from step 0
};
// The option --name, which names the job to create.
Argument NewJobName(std::string* name);
// Creates a job with the spec of the job `options.id`. Returns the exit code.
int CloneJob(Session* session, const CloneOptions& options);

}  // namespace ampd::client
