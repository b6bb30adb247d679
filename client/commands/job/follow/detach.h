#pragma once

#include <string>

#include "client/terminal/session.h"

namespace ampd::client {

// Prints that the job continues without ampctl, and the command to return to it: "ampctl job VERB ID". Returns the
// exit code.
int Detach(Session* session, const std::string& id, const char* verb);

// Starts a new line, because the terminal has shown "^C" on the current one. Then does the same as Detach.
int DetachAfterEcho(Session* session, const std::string& id, const char* verb);

}  // namespace ampd::client
