#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl policy` with all its commands.
Command PolicyCommands();

// The subcommands of `ampctl policy`. Each is defined in the file that has its name.
Command ListPoliciesCommand();
Command ShowPolicyCommand();

}  // namespace ampd::client
