#pragma once

#include <string>

namespace ampd::client {

// Returns whether a person at standard input can be asked.
bool CanAsk();

// Asks on stderr, "QUESTION [y/N] ", and reads the answer. Returns whether it is yes. REQUIRES: CanAsk().
bool Confirm(const std::string& question);

}  // namespace ampd::client
