#include "client/commands/context/context.h"

namespace ampd::client {

Command ContextCommands() {
  return {.name = "context",
          .help = "Give servers short names, and choose the default server",
          .commands = {
              AddContextCommand(),
              UseContextCommand(),
              RemoveContextCommand(),
              ListContextsCommand(),
              ShowContextCommand(),
          }};
}

}  // namespace ampd::client
