#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command `ampctl completion bash`. It prints a script for `source <(ampctl completion bash)`. The script runs
// `ampctl __complete WORD...`, which prints the completions of the last word, one per line (completer.h).
Command CompletionCommand();

}  // namespace ampd::client
