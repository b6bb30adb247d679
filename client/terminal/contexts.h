#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/grpc/server_connection.h"

namespace ampd::client {

// A server that a user has named.
struct NamedServer {
  std::string address;
  std::string tenant;  // Empty: the server chooses.
  ConnectionFiles files;
};

// The servers that a user has named ("contexts"), and which one is current. The file has lines "current NAME" and
// "NAME ADDRESS", behind which there may be tenant=NAME, token-file=PATH, ca=PATH, cert=PATH and key=PATH.
struct Contexts {
  std::string current;
  std::map<std::string, NamedServer> servers;
};

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";
// The socket of the server that Debian's package ampd-server runs. Only root can create its folder.
inline constexpr char kServiceSocket[] = "/run/ampd/ampd.sock";
inline constexpr char kProjectContext[] = ".ampd/context";

// Reads the user's file, $XDG_CONFIG_HOME/ampd/contexts or ~/.config/ampd/contexts. Returns no contexts if it does not
// exist. INVALID_ARGUMENT if it cannot be read, or if the environment names no folder for it.
absl::StatusOr<Contexts> ReadContexts();
// Writes the user's file. Fails like ReadContexts.
absl::Status WriteContexts(const Contexts& contexts);

// The path of a file of ampctl beside the user's file of contexts. Creates the folder if it is missing. Fails like
// ReadContexts.
absl::StatusOr<std::string> PathBesideContexts(const std::string& name);

// The name of the file beside the file of contexts in which `ampctl login` keeps the token for a context.
std::string TokenFileName(const std::string& context);

// A server's address, and where it was found, for messages.
struct ResolvedAddress {
  std::string address;
  std::string origin;
  ConnectionDefaults defaults;  // Of the context that names the server.
  std::string tenant;           // Of the context or, if it has none, AMPD_TENANT.
  std::string tenant_origin;    // Where the tenant was found, for messages.
};

// Returns whether the text is the address of a server: a host, a colon and a port from 1 to 65535; or "unix:" and the
// absolute path of a socket without blanks.
bool IsServerAddress(const std::string& text);

// Returns why the text is no address of a server, as words that follow it: "has no port; write HOST:PORT, such as
// lab:7070". REQUIRES: !IsServerAddress(text).
std::string WhyNoAddress(const std::string& text);

// Returns why the text is neither the name of a tenant nor "*", which stands for all; "" if it is one.
std::string WhyNoTenant(const std::string& text);

// INVALID_ARGUMENT if WhyNoTenant says so. `origin`: where the user gave the tenant, such as --tenant.
absl::Status CheckTenant(const std::string& origin, const std::string& tenant);

// Returns whether a context may have this name.
bool IsContextName(const std::string& name);

// Resolves the server's address from the first of these that is set: the flag, AMPD_ADDRESS, ./.ampd/context (written
// by `ampctl dev`), the current context, kServiceSocket if it exists, kDefaultAddress. Each may name a context instead
// of an address. INVALID_ARGUMENT if the text is neither a context nor an address. Reads the user's file only for a
// name, and if nothing before it in this order is set.
absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag);

// What ConnectionFiles has, with the words for it in the file of contexts and as options: "token-file", "ca", "cert"
// and "key".
struct ConnectionFileName {
  const char* name;
  const char* help;
  std::string& (*in)(ConnectionFiles& files);
};
const std::vector<ConnectionFileName>& ConnectionFileNames();

}  // namespace ampd::client
