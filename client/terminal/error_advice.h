#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/terminal/contexts.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Returns one line that says what to do about an error; empty if the error's message needs no advice. `address` is the
// server's address, which is empty for a command without a server.
std::string AdviceOnError(const absl::Status& status, const ResolvedAddress& address, const Session& session);

}  // namespace ampd::client
