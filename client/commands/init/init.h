#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl init`.
Command InitCommand();

}  // namespace ampd::client
