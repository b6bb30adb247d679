#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl dev.
Command DevCommand();

}  // namespace ampd::client
