#include "client/commands/auth/auth.h"

namespace ampd::client {

Command AuthCommands() {
  return {.name = "auth",
          .help = "Show your name and roles on the server; create, list and revoke tokens",
          .commands = {
              WhoAmICommand(),
              {.name = "token",
               .help = "Create, list and revoke tokens (for admins)",
               .commands = {CreateTokenCommand(), ListTokensCommand(), RevokeTokenCommand()}},
          }};
}

}  // namespace ampd::client
