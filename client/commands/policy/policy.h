#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl policy: all its commands.
Command PolicyCommands();

// Each is in the file of its name.
Command ListPoliciesCommand();
Command ShowPolicyCommand();

}  // namespace ampd::client
