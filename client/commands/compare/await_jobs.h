#pragma once

#include <optional>

#include "client/commands/compare/submit_policies.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Waits until all jobs have ended, and updates their records in `compared`. Prints a line when a job ends or is paused,
// and on a terminal a progress bar. Returns the exit code if the user presses Ctrl-C, which leaves the jobs running, or
// if the server cannot be reached. After Ctrl-C, names the command that prints the verdict later; `options` are the
// options of this command, each after a blank. REQUIRES: Session::CancelledByInterrupt() was called before
// Session::Client().
std::optional<int> AwaitJobs(Session* session, ComparedJobs* compared, const std::string& options);

}  // namespace ampd::client
