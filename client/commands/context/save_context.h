#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"
#include "client/terminal/contexts.h"
#include "client/terminal/session.h"

namespace ampd::client {

// The arguments NAME and ADDRESS of the commands that save a server as a context.
std::vector<Argument> NamedServerArguments(std::string* name, std::string* address);

// Makes the paths of the server's files absolute, because later commands run in other folders.
void MakeAbsolute(NamedServer* server);

// Returns an error if the file of contexts can't hold the name or the server, or if the server's files can't be used
// for a connection.
absl::Status CheckNamedServer(const std::string& name, const NamedServer& server);

// Returns the error that no context has the name. The error suggests the most similar name if one is similar.
absl::Status NoContext(const Contexts& contexts, const std::string& name);

// Deletes the token file that `ampctl login` wrote for the context `name`, and prints a message. `before` is this
// context before its change or removal, and `now` has all contexts after it. Does nothing if `before` did not use this
// token file, or if a context in `now` still uses it.
void ForgetToken(const Session& session, const std::string& name, const NamedServer& before, const Contexts& now);

// Saves the server as the context `name` and prints what has changed. Makes it the current context if `use` is true or
// if there is no current context. Returns the exit code. REQUIRES: CheckNamedServer returned OK.
int SaveContext(Session* session, const std::string& name, const NamedServer& server, bool use);

}  // namespace ampd::client
