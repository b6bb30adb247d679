#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl model: all its commands.
Command ModelCommands();

// Each is in the file of its name.
Command InspectModelCommand();

}  // namespace ampd::client
