#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl compare`.
Command CompareCommand();

// The command `ampctl estimate`.
Command EstimateCommand();

}  // namespace ampd::client
