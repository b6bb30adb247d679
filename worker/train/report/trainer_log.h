#pragma once

#include <string_view>

namespace ampd::train {

// Writes "2026-11-21T14:30:23Z TEXT" as one line to standard error, which the shim keeps and `ampctl job logs` shows.
// Thread-safe; lines stay whole.
void LogLine(std::string_view text);

}  // namespace ampd::train
