#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/grpc/server_connection.h"

namespace ampd::client {

// A server to which a user has given a name.
struct NamedServer {
  std::string address;
  std::string tenant;  // Empty: the server chooses.
  ConnectionFiles files;
};

// The servers to which a user has given names ("contexts"), and the name of the current one. In the file of contexts,
// the lines have the form "current NAME" or "NAME ADDRESS". After ADDRESS, a line may have tenant=NAME,
// token-file=PATH, ca=PATH, cert=PATH and key=PATH.
struct Contexts {
  std::string current;
  std::map<std::string, NamedServer> servers;
};

inline constexpr char kDefaultAddress[] = "127.0.0.1:7070";
// The socket of the server that Debian's package ampd-server starts. Only root can create its folder.
inline constexpr char kServiceSocket[] = "/run/ampd/ampd.sock";
inline constexpr char kProjectContext[] = ".ampd/context";

// Reads the user's file of contexts, $XDG_CONFIG_HOME/ampd/contexts or ~/.config/ampd/contexts. Returns no contexts if
// the file does not exist. INVALID_ARGUMENT if it cannot be read, or if HOME and XDG_CONFIG_HOME name no folder for it.
absl::StatusOr<Contexts> ReadContexts();
// Writes the user's file of contexts. Creates its folder if it is missing. INVALID_ARGUMENT if HOME and XDG_CONFIG_HOME
// name no folder for the file, if other users can write to the folder, or if the file cannot be written.
absl::Status WriteContexts(const Contexts& contexts);

// Returns the path of the file `name` in the folder that has the user's file of contexts. Creates the folder if it is
// missing. INVALID_ARGUMENT if HOME and XDG_CONFIG_HOME name no folder, if other users can write to the folder, or if
// it cannot be created.
absl::StatusOr<std::string> PathBesideContexts(const std::string& name);

// Returns the name of the file for a context's token, which `ampctl login` keeps beside the file of contexts.
std::string TokenFileName(const std::string& context);

// A server's address, and where it was found, for messages.
struct ResolvedAddress {
  std::string address;
  std::string origin;
  ConnectionDefaults defaults;  // The settings of the context that names the server.
  std::string tenant;           // The tenant of the context or, without one, AMPD_TENANT.
  std::string tenant_origin;    // Where the tenant was found, for messages.
};

// Returns why the text is neither the name of a tenant nor "*", which stands for all tenants; "" if it is one of these.
std::string WhyNoTenant(const std::string& text);

// Returns INVALID_ARGUMENT if WhyNoTenant(tenant) is not empty. `origin` says where the user gave the tenant, such as
// --tenant.
absl::Status CheckTenant(const std::string& origin, const std::string& tenant);

// Returns whether a context may have this name.
bool IsContextName(const std::string& name);

// Resolves the server's address from the first of these that is set: the flag, AMPD_ADDRESS, ./.ampd/context (written
// by `ampctl dev`), the current context, kServiceSocket if it exists, kDefaultAddress. Each text may be an address or
// the name of a context; INVALID_ARGUMENT if it is neither. Reads the user's file of contexts only to look up a name,
// or to find the current context.
absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag);

// A member of ConnectionFiles, with its name in the file of contexts and as an option: "token-file", "ca", "cert" or
// "key".
struct ConnectionFileName {
  const char* name;
  const char* help;
  std::string& (*in)(ConnectionFiles& files);
};
const std::vector<ConnectionFileName>& ConnectionFileNames();

}  // namespace ampd::client
