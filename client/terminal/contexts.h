#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace ampd::client {

// A server that a user has named.
struct NamedServer {
  std::string address;
  std::string token_file;  // Path of the file with the token for it; empty: none.
};

// The servers that a user has named ("contexts"), and which one is current. The file has lines "current NAME" and
// "NAME ADDRESS" or "NAME ADDRESS token-file=PATH".
struct Contexts {
  std::string current;
  std::map<std::string, NamedServer> servers;
};

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";
inline constexpr char kProjectContext[] = ".ampd/context";

// Reads the user's file, $XDG_CONFIG_HOME/ampd/contexts or ~/.config/ampd/contexts. Returns no contexts if it does not
// exist. INVALID_ARGUMENT if it cannot be read, or if the environment names no folder for it.
absl::StatusOr<Contexts> ReadContexts();
// Writes the user's file. Fails like ReadContexts.
absl::Status WriteContexts(const Contexts& contexts);

// A server's address, and where it was found, for messages.
struct ResolvedAddress {
  std::string address;
  std::string origin;
  std::string token_file;  // Of the context that names the server; empty: none.
};

// Returns whether the text is the address of a server: a host, a colon and a port from 1 to 65535; or "unix:" and the
// absolute path of a socket without blanks.
bool IsServerAddress(const std::string& text);

// Returns whether a context may have this name.
bool IsContextName(const std::string& name);

// Resolves the server's address from the first of these that is set: the flag, AMPD_ADDRESS, ./.ampd/context (written
// by `ampctl dev`), the current context, the default. Each may name a context instead of an address. INVALID_ARGUMENT
// if the text is neither a context nor an address. Reads the user's file only for a name, and if nothing before it in
// this order is set.
absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag);

// Returns the token to send to a server: that of the file `flag`, otherwise that of AMPD_TOKEN, otherwise that of the
// server's context; empty if there is none. INVALID_ARGUMENT if a file cannot be read, or if the token must not be sent
// to this address.
absl::StatusOr<std::string> ResolveToken(const std::string& flag, const ResolvedAddress& server);

}  // namespace ampd::client
