#pragma once

#include <string>

namespace ampd::client {

// Whether there is a person at standard input who can be asked.
bool CanAsk();

// Asks on stderr, "QUESTION [y/N] ", and reads a line. REQUIRES: CanAsk().
bool Confirm(const std::string& question);

}  // namespace ampd::client
