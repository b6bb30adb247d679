#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"

namespace ampd {

// How a client or a worker reaches a server of ampd.
struct ServerConnection {
  std::string address;  // HOST:PORT, or unix:/PATH of the server's socket.
  std::string token;    // Goes with every call, as `authorization: Bearer TOKEN`; empty: none.
  TlsFiles tls;         // Empty: no TLS. A socket never has TLS.
  // Goes with every call, as the metadata `traceparent` (base/trace_context.h); empty: none.
  std::string traceparent = {};
};

// Returns whether the address is a Unix socket.
bool IsSocketAddress(const std::string& address);

// Returns whether the address is a Unix socket or a loopback address of this host. What is sent there does not cross a
// network, so nobody on other hosts can read it.
bool IsLocalAddress(const std::string& address);

// What a user gives to prove who it is, and to know the server. Empty: not given.
struct ConnectionFiles {
  std::string token;  // Path of a file whose first line is the token.
  TlsFiles tls;
};

// What takes the place of files that a user does not give.
struct ConnectionDefaults {
  ConnectionFiles files;  // Those of the server's context.
  // Whether AMPD_CA, AMPD_CERT, AMPD_KEY, and AMPD_TOKEN with the token itself, come after them.
  bool reads_environment = true;
};

// Returns the connection to a server. INVALID_ARGUMENT if a file cannot be used (BAD_TOKEN_FILE, BAD_TLS_FILES), if the
// token is not one word of printable ASCII (BAD_TOKEN), or if it would travel to another host without encryption
// (TOKEN_IN_THE_CLEAR).
absl::StatusOr<ServerConnection> ConnectionTo(const std::string& address, const ConnectionFiles& flags,
                                              const ConnectionDefaults& defaults = {});

}  // namespace ampd
