#include "server/server_commands.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "server/exit_code.h"

namespace ampd::server {

FlagSet FlagsOfCommand(std::string_view name) {
  const ServerCommand* const command = std::find_if(std::begin(kServerCommands), std::end(kServerCommands),
                                                    [name](const ServerCommand& one) { return one.name == name; });
  return {std::string("ampd-server ") + command->name, std::string(command->help) + ".", Starts::kCommand};
}

std::optional<int> ParseCommand(FlagSet* flags, int argc, const char* const* argv) {
  const absl::StatusOr<ParsedFlags> parsed = flags->Parse(argc, argv);
  if (!parsed.ok()) {
    std::fprintf(stderr, "ampd-server: %s\n", std::string(parsed.status().message()).c_str());
    return kExitUsage;
  }
  if (!parsed->output.empty()) {
    std::fputs(parsed->output.c_str(), stdout);
    return kExitOk;
  }
  return std::nullopt;
}

int UsageErrorOfCommand(const char* name, const char* message) {
  std::fprintf(stderr, "ampd-server: %s; see ampd-server %s --help\n", message, name);
  return kExitUsage;
}

}  // namespace ampd::server
