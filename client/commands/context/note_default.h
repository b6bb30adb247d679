#pragma once

#include <string>

#include "client/terminal/contexts.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Says on stderr which server commands use now that `contexts` is written. Warns if they use another one than the
// current context's, because something that comes first names it.
void NoteDefault(const Session& session, const Contexts& contexts);

}  // namespace ampd::client
