#pragma once

#include "absl/time/time.h"
#include "client/commands/command.h"

// Functions shared by the commands that create a job.
namespace ampd::client {

// How long to retry if --retry-for is not given.
inline constexpr absl::Duration kDefaultRetry = absl::Seconds(10);

// Returns how to retry: for `retry_for` or until Ctrl-C, with a message at the first retry. REQUIRES: called before
// Session::Client().
JobClient::Retry RetryOf(Session* session, absl::Duration retry_for);

// The option --request-id, and the id to send for it: the user's or, if that is empty, a new one.
Argument RequestId(std::string* request_id);
std::string RequestIdOf(const std::string& request_id);

// Prints the created job's id and commands to type next.
void ReportAccepted(Session* session, const v1::Job& job);

// If the job is queued and no available worker could run it, prints a warning with the reason and advice. Prints
// nothing if the server does not answer.
void WarnIfNoWorkerFits(const Session& session, JobClient* client, const v1::Job& job);
// Prints a warning with the reason and advice if no available worker could run the job, which the server has only
// checked and not created. `checked.pending()` has the reason.
void WarnIfNoWorkerWouldFit(const Session& session, const v1::Job& checked);

struct CloneOptions {
  std::string id;
  std::string name;                   // name of the created job; empty: the same as the other job's
  std::string request_id;             // empty: a new one
  bool from_last_checkpoint = false;  // true: start with the other job's last checkpoint; false: start from step 0
};
// The option --name, which names the job to create.
Argument NewJobName(std::string* name);
// Creates a job with the spec of the job `options.id`. Returns the exit code.
int CloneJob(Session* session, const CloneOptions& options);

}  // namespace ampd::client
