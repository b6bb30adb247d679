#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/api/job_watch.h"
#include "client/commands/command.h"

// Functions shared by the commands that follow jobs: how long they try to reach a server that does not answer.
namespace ampd::client {

// The option --retry-for.
Argument ReconnectFor(std::optional<absl::Duration>* retry_for);

// Returns the patience for --retry-for. Without the option it is a minute after a connection was lost, and none before
// the first answer, because the address is probably wrong then.
Patience PatienceOf(const std::optional<absl::Duration>& retry_for);

// Returns the id of the job that a user means by `text` (FindJobId). If `patience` allows, repeats its calls until the
// server answers; it prints a note then. CANCELLED after Ctrl-C. REQUIRES: called after
// Session::CancelledByInterrupt().
absl::StatusOr<std::string> FindJobIdPatiently(Session* session, JobClient* client, const std::string& text,
                                               const Patience& patience);

}  // namespace ampd::client
