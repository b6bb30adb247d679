#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"
#include "server/access/grants.h"

namespace ampd::server {

// Everything an operator can configure; docs/exit-codes.md and `ampd-server --help` describe it.
struct ServerConfig {
  std::string socket;                   // Path of the Unix socket of the gRPC API.
  Grants grants{{geteuid(), 0}};        // Roles of the users that connect to it.
  std::optional<ListenAddress> listen;  // Nothing: none. Of loopback if there is no TLS.
  TlsFiles tls;                         // Of `listen`, and the CA of clients behind a proxy; empty: neither.
  std::string proxy_socket;             // Path of the socket for a proxy; empty: none.
  bool trusts_loopback = false;         // Whether calls there need no token.
  ListenAddress metrics_listen;
  std::string data_dir;
  std::string port_file;  // Empty: write no port file.
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  // How long after a job's end its data is archived or deleted; zero means never.
  absl::Duration archive_after = absl::Hours(1);
  absl::Duration retention = absl::Hours(24 * 30);  // Points, events, logs and samples.
  absl::Duration checkpoint_retention = absl::ZeroDuration();
  absl::Duration worker_retention = absl::Hours(24 * 7);  // How long lost workers are kept; zero means forever.
  absl::Duration metrics_linger = absl::Minutes(2);
  absl::Duration drain_grace = absl::Seconds(5);
  int metrics_max_jobs = 200;
  int64_t min_free_bytes = 256 << 20;  // Free space on the data directory's disk; with less, no job is accepted.
  int64_t reserve_bytes = 16 << 20;    // Reserved for essential writes when the disk is full.
  int64_t artifact_quota_bytes = int64_t{50} << 30;
  absl::Duration artifact_retention = absl::Hours(24 * 30);  // For uploads that no live job names; zero means forever.
  std::string log_level = "info";
  std::string log_format = "text";
};

// Exit codes of the process, which docs/exit-codes.md explains.
inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitData = 65;        // The data directory is damaged or has a newer schema.
inline constexpr int kExitPort = 69;        // The server cannot listen on an address.
inline constexpr int kExitDataGone = 74;    // The data directory was deleted or replaced while the server ran.
inline constexpr int kExitDataLocked = 73;  // Another server uses the data directory, or it cannot be created.

// The exit code of a server that failed to start or to continue with this error.
int ExitCodeOf(const absl::Status& status);

// The result of reading the command line. If `run` is true, the process starts the server with `config`. Otherwise it
// prints `output` and exits with `exit_code`: to stdout (--help, --version) or, with kExitUsage, one line to stderr.
struct ParsedConfig {
  bool run = false;
  int exit_code = kExitOk;
  std::string output;
  ServerConfig config;
};
ParsedConfig ParseServerConfig(int argc, const char* const* argv);

}  // namespace ampd::server
