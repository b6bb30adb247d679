#include "client/commands/policy/policy.h"

namespace ampd::client {

Command PolicyCommands() {
  return {.name = "policy",
          .help = "Show precision policies",
          .commands = {
              ListPoliciesCommand(),
              ShowPolicyCommand(),
          }};
}

}  // namespace ampd::client
