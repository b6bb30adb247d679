#pragma once

#include <string>

namespace ampd::client {

// Returns whether a person can be asked, because standard input is a terminal.
bool CanAsk();

// Asks "QUESTION [y/N] " on stderr, and reads the answer from standard input. Returns whether the answer is yes.
// REQUIRES: CanAsk().
bool Confirm(const std::string& question);

}  // namespace ampd::client
