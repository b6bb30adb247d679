#pragma once

#include <optional>
#include <string_view>

#include "base/flags/flag_set.h"

// The subcommands of ampd-server, such as `ampd-server init`. Unlike the server, they end by themselves.
namespace ampd::server {

struct ServerCommand {
  const char* name;
  const char* help;  // One line.
};

// The subcommands, in the order of --help. The program's main function finds the C++ functions by these names.
inline constexpr ServerCommand kServerCommands[] = {
    {"init", "Make a certificate authority, the server's certificate and the first admin's token"},
    {"cert",
     "Make a certificate for a user, a worker or, with --host, a server. A user or worker also needs a role, from "
     "ampd-server --grant cert:NAME=ROLE or from a token"},
    {"backup",
     "Make a backup of a data directory, whether its server runs or not. It lacks checkpoints, which are on workers"},
    {"restore", "Make a data directory from a backup"},
    {"check", "Check a data directory, whether its server runs or not, or a backup"},
};

// Returns the flags of the subcommand with this name, which must be in kServerCommands. At first there is only --help;
// the caller adds the others.
FlagSet FlagsOfCommand(std::string_view name);

// Parses the arguments after the subcommand's name. Returns nullopt if the subcommand is to run. Otherwise prints the
// help or the error, and returns the exit code of the process.
std::optional<int> ParseCommand(FlagSet* flags, int argc, const char* const* argv);

// Prints why the command line of a subcommand is wrong. Returns the exit code of the process.
int UsageErrorOfCommand(const char* name, const char* message);

}  // namespace ampd::server
