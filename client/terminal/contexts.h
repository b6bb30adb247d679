#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace ampd::client {

// The servers that a user has named, and the one in use. A file of lines "current NAME" and "NAME ADDRESS".
struct Contexts {
  std::string current;
  std::map<std::string, std::string> addresses;
};

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";
inline constexpr char kProjectContext[] = ".ampd/context";

// $XDG_CONFIG_HOME/ampd/contexts, or the same below ~/.config.
std::string ContextsPath();
// Empty contexts when there is no file.
absl::StatusOr<Contexts> ReadContexts(const std::string& path);
absl::Status WriteContexts(const std::string& path, const Contexts& contexts);

// An address and where it comes from, for messages.
struct ResolvedAddress {
  std::string address;
  std::string origin;
};

// Whether a text is a host, a colon and a port of 1 to 65535.
bool IsHostAndPort(const std::string& text);

// The flag, else AMPD_ADDRESS, else ./.ampd/context, which `ampctl dev` writes, else the context in use, else the
// default. A name of a context stands for its address in all of them. INVALID_ARGUMENT
// for what is neither that nor a host and a port.
absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag);

}  // namespace ampd::client
