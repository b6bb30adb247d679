#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/terminal/session.h"

namespace ampd::client {

struct WatchOptions {
  std::string id;
  bool live_only = false;                      // whether to skip events from before the watch began
  absl::Duration interval = absl::Seconds(5);  // time between two lines if stdout is not a terminal
  std::optional<absl::Duration> retry_for;     // how long to try to reach the server; unset: PatienceOf
};

// Shows a job until it ends or the user presses Ctrl-C. Returns the exit code of the job's end, or kExitInterrupted
// after Ctrl-C.
int Watch(Session* session, const WatchOptions& options);

}  // namespace ampd::client
