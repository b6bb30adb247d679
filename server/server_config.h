#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/flags/settings.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"
#include "server/access/grants.h"
#include "server/access/limits.h"
#include "server/exit_code.h"
#include "server/oidc/identity_provider.h"

namespace ampd::server {

// All settings of the server; `ampd-server --help` describes them.
struct ServerConfig {
  std::string socket;             // Path of the Unix socket of the gRPC API.
  Grants grants{{geteuid(), 0}};  // Roles of the local users that connect to `socket`.
  Limits limits;
  std::optional<ListenAddress> listen;  // Unset: no TCP port. Must be a loopback address if there is no TLS.
  TlsFiles tls;                         // For `listen`. The CA also checks clients behind a proxy. Empty: no TLS.
  std::string proxy_socket;             // Path of the Unix socket for a proxy; empty: none.
  bool trusts_loopback = false;         // Whether calls to a loopback `listen`, and scrapes without TLS, need no token.
  OidcConfig oidc;                      // Empty: no identity provider.
  ListenAddress metrics_listen;         // Must be a loopback address if there is no `metrics_tls`.
  TlsFiles metrics_tls;                 // Empty: no TLS. Without a CA, clients need no certificate.
  std::string data_dir;
  std::string port_file;  // Empty: write no port file.
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  // How long after a job's end its data is archived or deleted; zero means never.
  absl::Duration archive_after = absl::Hours(1);
  absl::Duration retention = absl::Hours(24 * 30);  // For metric points, events, logs and samples.
  absl::Duration checkpoint_retention = absl::ZeroDuration();
  absl::Duration worker_retention = absl::Hours(24 * 7);  // How long lost workers are kept; zero means forever.
  absl::Duration metrics_linger = absl::Minutes(2);
  absl::Duration drain_grace = absl::Seconds(5);
  int metrics_max_jobs = 200;
  int64_t min_free_bytes = 256 << 20;  // If less space is free on the data directory's disk, new jobs are refused.
  // If the server uses more memory than this, it refuses calls that need much memory; far above this limit it ends. 0:
  // no limit. Unset: three quarters of the memory of the host or of the control group.
  std::optional<int64_t> memory_limit_bytes;
  int64_t reserve_bytes = 16 << 20;  // Reserved for essential writes when the disk is full.
  int64_t artifact_quota_bytes = int64_t{50} << 30;
  absl::Duration artifact_retention = absl::Hours(24 * 30);  // For uploads that no live job names; zero means forever.
  std::string log_level = "info";
  std::string log_format = "text";
};

// The result of reading the command line and the configuration file. If `run` is true, the process starts the server
// with `config`. If `run` is false, it prints `output` and exits with `exit_code`. `output` is one line for stderr if
// `exit_code` is kExitUsage, and text for stdout in all other cases (--help, --version, --print-config).
struct ParsedConfig {
  bool run = false;
  int exit_code = kExitOk;
  std::string output;
  ServerConfig config;
  Settings settings;        // The settings from which `config` was made.
  std::string config_file;  // Empty: no configuration file.
};
ParsedConfig ParseServerConfig(int argc, const char* const* argv);

}  // namespace ampd::server
