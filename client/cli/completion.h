#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl completion SHELL`. It prints a script that the shell sources. The script runs
// `ampctl __complete WORD...`, which prints the completions of the last word, one per line (completer.h).
Command CompletionCommand();

}  // namespace ampd::client
