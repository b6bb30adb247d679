#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd::server {

// The options of `ampd-server init`.
struct InitOptions {
  std::string data_dir;
  std::vector<std::string> hosts;  // Names and addresses by which clients and workers reach the server.
  absl::Duration validity = absl::Hours(24 * 365);
};

// Prepares a data directory for a server on a network. Creates a certificate authority and the server's certificate in
// DATA_DIR/tls, and the token of a first admin in DATA_DIR/admin.token. Only the owner can read keys and token (mode
// 0600). Returns the next commands to run.
//
//   FAILED_PRECONDITION  (ALREADY_INITIALIZED) the folder tls exists already
//                        (DATA_DIRECTORY_LOCKED) a server uses the directory
//                        (CANNOT_WRITE) a file cannot be written
//   INVALID_ARGUMENT     a host is malformed
absl::StatusOr<std::string> InitServer(const InitOptions& options);

// The options of `ampd-server cert`.
struct CertOptions {
  std::string data_dir;
  std::string name;                // Common name: the name of a user or of a worker.
  std::vector<std::string> hosts;  // Names and addresses of a server. Empty: the certificate is for a user or worker.
  std::string out;                 // Folder for the files; empty: the current folder.
  bool replace = false;            // Whether to replace files that exist.
  absl::Duration validity = absl::Hours(24 * 365);
};

// Creates a certificate that is signed by the authority of InitServer: OUT/NAME.pem and OUT/NAME.key. Only the owner
// can read the key. For a server, also creates OUT/proxy.pem, which has both certificate and key. For a server with the
// name "proxy", this is OUT/NAME.pem, so there is no file with the certificate alone. Returns how to use the files.
//
//   FAILED_PRECONDITION  (NOT_INITIALIZED) there is no authority
//                        (CANNOT_WRITE) a file exists already or cannot be written
//   INVALID_ARGUMENT     the name or a host is malformed
absl::StatusOr<std::string> MakeCertificate(const CertOptions& options);

// These functions run `ampd-server init` and `ampd-server cert`. The first argument is the command's name. They return
// the exit code of the process.
int RunInit(int argc, const char* const* argv);
int RunCert(int argc, const char* const* argv);

}  // namespace ampd::server
