#include "client/commands/context/context.h"

namespace ampd::client {

Command ContextCommands() {
  return {.name = "context",
          .help = "Name servers, and choose the one to use",
          .commands = {
              AddContextCommand(),
              UseContextCommand(),
              ListContextsCommand(),
              ShowContextCommand(),
          }};
}

}  // namespace ampd::client
