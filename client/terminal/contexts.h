#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace ampd::client {

// The servers that a user has named ("contexts"), and which one is current. The file has lines "current NAME" and
// "NAME ADDRESS".
struct Contexts {
  std::string current;
  std::map<std::string, std::string> addresses;
};

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";
inline constexpr char kProjectContext[] = ".ampd/context";

// Returns the file's path: $XDG_CONFIG_HOME/ampd/contexts, or ~/.config/ampd/contexts.
std::string ContextsPath();
// Reads the file. Returns no contexts if it does not exist.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);
absl::Status WriteContexts(const std::string& path, const Contexts& contexts);

// A server's address, and where it was found, for messages.
struct ResolvedAddress {
  std::string address;
  std::string origin;
};

// Returns whether the text is a host, a colon and a port from 1 to 65535.
bool IsHostAndPort(const std::string& text);

// Resolves the server's address from the first of these that is set: the flag, AMPD_ADDRESS, ./.ampd/context (written
// by `ampctl dev`), the current context, the default. Each may name a context instead of an address. INVALID_ARGUMENT
// if the text is neither a context nor HOST:PORT.
absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag);

}  // namespace ampd::client
