#include "client/commands/data/data.h"

namespace ampd::client {

Command DataCommands() {
  return {.name = "data",
          .help = "Inspect and make data set files on this machine",
          .commands = {
              InspectDataCommand(),
              TokenizeDataCommand(),
              PackDataCommand(),
          }};
}

}  // namespace ampd::client
