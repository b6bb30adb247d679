#include <vector>

#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/call.h"
#include "client/terminal/output.h"

namespace ampd::client {

Command ListTokensCommand() {
  return {.name = "list",
          .alias = "ls",
          .help = "List tokens, without their secrets",
          .formats = ListFormats(),
          .run = [](Session* session) {
            return CallAndShow(session, ListTokens,
                               [&](const std::vector<v1::Token>& tokens) { PrintTokens(*session, tokens); });
          }};
}

}  // namespace ampd::client
