#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"

namespace ampd {

// How a client or a worker reaches a server of ampd.
struct ServerConnection {
  std::string address;  // HOST:PORT, or unix:/PATH of the server's socket.
  std::string token;    // Sent with every call, as `authorization: Bearer TOKEN`; empty: none.
  TlsFiles tls;         // Empty: no TLS. A socket never has TLS.
  // Sent with every call, as the metadata `traceparent` (base/trace_context.h); empty: none.
  std::string traceparent = {};
};

// Returns whether the address is a Unix socket.
bool IsSocketAddress(const std::string& address);

// Returns whether the address is a Unix socket or a loopback address of this host. What is sent there does not cross a
// network, so nobody on other hosts can read it.
bool IsLocalAddress(const std::string& address);

// The files with which a user proves who they are and verifies the server. Empty: the user did not name the file.
struct ConnectionFiles {
  std::string token;  // Path of a file whose first line is the token.
  TlsFiles tls;
};

// The sources of token and TLS files for a user who does not name these files.
struct ConnectionDefaults {
  ConnectionFiles files;  // The files of ampctl's context for this server.
  // Whether to use environment variables for what neither the user nor `files` names: AMPD_CA, AMPD_CERT and AMPD_KEY
  // name files, and AMPD_TOKEN holds the token itself.
  bool reads_environment = true;
};

// Returns the connection to a server. Returns INVALID_ARGUMENT if a file cannot be used (BAD_TOKEN_FILE,
// BAD_TLS_FILES), if the token is not one word of printable ASCII (BAD_TOKEN), or if the token would travel to another
// host without encryption (TOKEN_IN_THE_CLEAR).
absl::StatusOr<ServerConnection> ConnectionTo(const std::string& address, const ConnectionFiles& flags,
                                              const ConnectionDefaults& defaults = {});

}  // namespace ampd
