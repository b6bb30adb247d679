#include "client/commands/policy/policy.h"

namespace ampd::client {

Command PolicyCommands() {
  return {.name = "policy",
          .help = "Precision policies",
          .commands = {
              ListPoliciesCommand(),
              ShowPolicyCommand(),
          }};
}

}  // namespace ampd::client
