#pragma once

#include <optional>
#include <string>

#include "client/terminal/session.h"

namespace ampd::client {

// Asks the person at the terminal whether to delete, unless `confirmed` is set by --yes. Returns nothing if the
// deletion may start. Returns the exit code if the answer is no, or if nobody can be asked; the error message then
// names a command that deletes the same without a question; `words` are its words, such as "job delete --yes ID".
std::optional<int> AskBeforeDelete(Session* session, bool confirmed, const std::string& question,
                                   const std::string& words);

}  // namespace ampd::client
