#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/terminal/session.h"

namespace ampd::client {

struct WatchOptions {
  std::string id;
  bool live_only = false;                      // omits what happened before
  absl::Duration interval = absl::Seconds(5);  // between lines when stdout is not a terminal
};

// Shows a job until it ends or Ctrl-C. Returns the exit code, which is that of the job.
int Watch(Session* session, const WatchOptions& options);

}  // namespace ampd::client
