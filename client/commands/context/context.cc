#include "client/commands/context/context.h"

namespace ampd::client {

Command ContextCommands() {
  return {.name = "context",
          .help = "Servers by name",
          .commands = {
              AddContextCommand(),
              UseContextCommand(),
              ListContextsCommand(),
              ShowContextCommand(),
          }};
}

}  // namespace ampd::client
