#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd::server {

// What `ampd-server init` is asked for.
struct InitOptions {
  std::string data_dir;
  std::vector<std::string> hosts;  // Names and addresses by which clients and workers reach the server.
  absl::Duration validity = absl::Hours(24 * 365);
};

// Prepares a data directory for a server on a network: makes a certificate authority and the server's certificate in
// DATA_DIR/tls, and the token of a first admin in DATA_DIR/admin.token; keys and token for their owner only (mode
// 0600). Returns what to run next. FAILED_PRECONDITION if the folder tls exists already (ALREADY_INITIALIZED), if a
// server uses the directory (DATA_DIRECTORY_LOCKED), or if a file cannot be written; INVALID_ARGUMENT for a bad host.
absl::StatusOr<std::string> InitServer(const InitOptions& options);

// What `ampd-server cert` is asked for.
struct CertOptions {
  std::string data_dir;
  std::string name;                // Common name: that of a user or of a worker.
  std::vector<std::string> hosts;  // Of a server, as InitOptions::hosts; empty: the certificate of a user or a worker.
  std::string out;                 // Folder for the files; empty: the current one.
  bool replace = false;            // Whether to replace files that exist.
  absl::Duration validity = absl::Hours(24 * 365);
};

// Makes a certificate with the authority of InitServer: OUT/NAME.pem and OUT/NAME.key, the key for its owner only; for
// a server also OUT/proxy.pem, which has both. Returns what to do with them. FAILED_PRECONDITION if there is no
// authority (NOT_INITIALIZED), or if a file exists already or cannot be written (CANNOT_WRITE); INVALID_ARGUMENT for a
// bad name or host.
absl::StatusOr<std::string> MakeCertificate(const CertOptions& options);

// Run `ampd-server init` and `ampd-server cert`. The first of the arguments is the command's name. Return the exit code
// of the process.
int RunInit(int argc, const char* const* argv);
int RunCert(int argc, const char* const* argv);

}  // namespace ampd::server
