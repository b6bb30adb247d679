#pragma once

#include <string_view>

namespace ampd::train {

// Writes "2026-11-21T14:30:23Z TEXT" as one line to standard error, which the shim keeps and `ampctl job logs` shows.
// Thread-safe; lines stay whole.
void LogLine(std::string_view text);

// Begins the trainer's span, whose parent is the span that `traceparent` names, and writes a line with their ids. Does
// nothing if the text is not a valid traceparent. Call once, when the attempt is known. Thread-safe.
void JoinTrace(std::string_view traceparent);

}  // namespace ampd::train
