#pragma once

#include <string>

#include "client/terminal/session.h"

namespace ampd::client {

// Prints that the job continues without ampctl, and how to come back: "ampctl job VERB ID". Returns the exit code.
int Detach(Session* session, const std::string& id, const char* verb);

// Prints the same on a line after the "^C" that a terminal shows.
int DetachAfterEcho(Session* session, const std::string& id, const char* verb);

}  // namespace ampd::client
