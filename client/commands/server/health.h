#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl health`.
Command HealthCommand();

}  // namespace ampd::client
