#include "client/commands/data/data.h"

namespace ampd::client {

Command DataCommands() {
  return {.name = "data",
          .help = "Files of datasets",
          .commands = {
              InspectDataCommand(),
              TokenizeDataCommand(),
              PackDataCommand(),
          }};
}

}  // namespace ampd::client
