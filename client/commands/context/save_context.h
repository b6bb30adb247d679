#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"
#include "client/terminal/contexts.h"
#include "client/terminal/session.h"

namespace ampd::client {

// The arguments NAME ADDRESS of a command that gives a server a name.
std::vector<Argument> NamedServerArguments(std::string* name, std::string* address);

// Makes the paths of the server's files absolute, because the file of contexts is read in other folders.
void MakeAbsolute(NamedServer* server);

// Refuses what the file of contexts could not hold, and files with which no connection could be made.
absl::Status CheckNamedServer(const std::string& name, const NamedServer& server);

// The error that no server has the name, with the most similar name if one is similar.
absl::Status NoContext(const Contexts& contexts, const std::string& name);

// Deletes the token that `ampctl login` kept for the context `name`, and says so. Keeps any other file that
// `before.files` names, and one that a context of `now` still uses.
void ForgetToken(const Session& session, const std::string& name, const NamedServer& before, const Contexts& now);

// Gives the server the name, and says what has changed. Makes it the current context if `use` is true or if there is
// none. Returns the exit code. REQUIRES: CheckNamedServer.
int SaveContext(Session* session, const std::string& name, const NamedServer& server, bool use);

}  // namespace ampd::client
