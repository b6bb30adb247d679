#pragma once

#include "absl/time/time.h"
#include "client/commands/command.h"

// Shared by the commands that create a job.
namespace ampd::client {

// How long to retry if --retry-for is not given.
inline constexpr absl::Duration kDefaultRetry = absl::Seconds(10);

// Retries for that long, and says so. Ctrl-C cancels the retries. REQUIRES: called before Session::Client().
JobClient::Retry RetryOf(Session* session, absl::Duration retry_for);

// Prints the created job's id and the next commands.
void ReportAccepted(Session* session, const v1::Job& job);

struct CloneOptions {
  std::string id;
  std::string name;                   // empty: the name of the job
  bool from_last_checkpoint = false;  // otherwise from the start
};
// --name of the created job.
Argument NewJobName(std::string* name);
// Creates a job with the spec of another. Returns the exit code.
int CloneJob(Session* session, const CloneOptions& options);

}  // namespace ampd::client
