#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl dev`.
Command DevCommand();

}  // namespace ampd::client
