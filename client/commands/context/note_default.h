#pragma once

#include <string>

#include "client/terminal/contexts.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Prints to stderr which server the next commands use, after `contexts` was written. Warns if it is not the current
// context's server, because something with a higher priority, such as AMPD_ADDRESS, names another (ResolveAddress).
void NoteDefault(const Session& session, const Contexts& contexts);

}  // namespace ampd::client
