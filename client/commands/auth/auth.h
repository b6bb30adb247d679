#pragma once

#include "client/commands/command.h"

namespace ampd::client {

// The command group `ampctl auth` with all its commands.
Command AuthCommands();

// `ampctl login`.
Command LoginCommand();

// `ampctl audit`.
Command AuditCommand();

// The subcommands of `ampctl auth` and `ampctl auth token`. Each is defined in the file that has its name.
Command WhoAmICommand();
Command CreateTokenCommand();
Command ListTokensCommand();
Command RevokeTokenCommand();

}  // namespace ampd::client
