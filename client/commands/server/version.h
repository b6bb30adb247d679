#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl version`. It prints ampctl's version, and that of the server if one answers within a second.
Command VersionCommand();

}  // namespace ampd::client
