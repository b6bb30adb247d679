#include "client/commands/model/model.h"

namespace ampd::client {

Command ModelCommands() {
  return {.name = "model",
          .help = "Models of your own",
          .commands = {
              InspectModelCommand(),
          }};
}

}  // namespace ampd::client
