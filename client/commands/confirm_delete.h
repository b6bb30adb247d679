#pragma once

#include <optional>
#include <string>

#include "client/terminal/session.h"

namespace ampd::client {

// Asks before a deletion, unless it is confirmed by --yes. Returns the exit code if nothing may be deleted: the answer
// is no, or nobody can be asked. The error then names `command`, such as "ampctl job delete --yes ID".
std::optional<int> AskBeforeDelete(Session* session, bool confirmed, const std::string& question,
                                   const std::string& command);

}  // namespace ampd::client
