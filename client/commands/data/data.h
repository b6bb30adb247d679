#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl data: all its commands.
Command DataCommands();

// Each is in the file of its name.
Command InspectDataCommand();
Command TokenizeDataCommand();
Command PackDataCommand();

}  // namespace ampd::client
