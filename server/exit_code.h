#pragma once

#include "absl/status/status.h"

namespace ampd::server {

// Exit codes of the process, which docs/exit-codes.md explains.
inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitData = 65;        // The data directory is damaged or has a newer schema.
inline constexpr int kExitPort = 69;        // The server cannot listen on an address.
inline constexpr int kExitDataGone = 74;    // The data directory was deleted or replaced while the server ran.
inline constexpr int kExitDataLocked = 73;  // The data directory is in use by another server, not usable, or not safe.
inline constexpr int kExitRestart = 75;     // The server cannot continue, but a restart helps.

// Returns the exit code of a server that failed with this error, at its start or later.
int ExitCodeOf(const absl::Status& status);

}  // namespace ampd::server
