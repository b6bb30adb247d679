#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl version`. It prints ampctl's version, and the server's version if the server answers within a
// second.
Command VersionCommand();

}  // namespace ampd::client
