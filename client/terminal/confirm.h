#pragma once

#include <string>

namespace ampd::client {

// Whether a person at standard input can be asked.
bool CanAsk();

// Asks on stderr, "QUESTION [y/N] ", and reads a line. REQUIRES: CanAsk().
bool Confirm(const std::string& question);

}  // namespace ampd::client
