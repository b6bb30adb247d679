#pragma once

#include <optional>
#include <string_view>

#include "base/flags/flag_set.h"

// The commands of ampd-server that end by themselves: ampd-server init.
namespace ampd::server {

struct ServerCommand {
  const char* name;
  const char* help;  // One line.
};

// In the order of --help. The program's main function looks their functions up by name.
inline constexpr ServerCommand kServerCommands[] = {
    {"init", "Make a certificate authority, the server's certificate and the first admin's token"},
    {"cert", "Make a certificate for a user, a worker or, with --host, a server"},
    {"backup", "Make a backup of a data directory, whether its server runs or not"},
    {"restore", "Make a data directory from a backup"},
    {"check", "Check a data directory, whether its server runs or not, or a backup"},
};

// The flags of the command with this name, which is in kServerCommands: none yet but --help.
FlagSet FlagsOfCommand(std::string_view name);

// Parses the arguments behind the command's name. Returns nothing if the command is to run; otherwise prints the help
// or the error, and returns the exit code of the process.
std::optional<int> ParseCommand(FlagSet* flags, int argc, const char* const* argv);

// Prints why the command line of a command is wrong; returns the exit code of the process.
int UsageErrorOfCommand(const char* name, const char* message);

}  // namespace ampd::server
