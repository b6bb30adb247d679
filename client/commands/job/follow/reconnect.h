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

// Returns the patience for --retry-for. Without the option, a command waits for a minute after a connection was lost.
// The command does not wait for the first answer, because a server that never answered probably has another address.
Patience PatienceOf(const std::optional<absl::Duration>& retry_for);

// Returns the id of the job that `text` names (FindJobId). If the server does not answer, repeats the call as long as
// `patience` allows, and prints a note. CANCELLED after Ctrl-C. REQUIRES: called after Session::CancelledByInterrupt().
absl::StatusOr<std::string> FindJobIdPatiently(Session* session, JobClient* client, const std::string& text,
                                               const Patience& patience);

}  // namespace ampd::client
