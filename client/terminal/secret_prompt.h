#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ampd::client {

// Reads one line from standard input. If standard input is a terminal, asks `question` on stderr, and the terminal does
// not show what is typed. Returns the line without blanks around it; INVALID_ARGUMENT if it is empty or has more than
// 16 KiB.
absl::StatusOr<std::string> ReadSecret(const std::string& question);

}  // namespace ampd::client
