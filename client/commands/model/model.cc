#include "client/commands/model/model.h"

namespace ampd::client {

Command ModelCommands() {
  return {.name = "model",
          .help = "Inspect exported models on this machine",
          .commands = {
              InspectModelCommand(),
          }};
}

}  // namespace ampd::client
