#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// ampctl completion bash: prints a script for `source <(ampctl completion bash)`. The script runs
// `ampctl __complete WORD...`, which prints candidates for the last word, one per line (completer.h).
Command CompletionCommand();

}  // namespace ampd::client
