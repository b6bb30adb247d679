#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl health.
Command HealthCommand();

}  // namespace ampd::client
