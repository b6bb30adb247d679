#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl context: all its commands.
Command ContextCommands();

// Each is in the file of its name.
Command AddContextCommand();
Command UseContextCommand();
Command ListContextsCommand();
Command ShowContextCommand();

}  // namespace ampd::client
