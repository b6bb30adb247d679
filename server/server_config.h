#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/io/listen_address.h"

namespace ampd::server {

// Everything an operator can choose; docs/exit-codes.md and `ampd-server --help` tell more.
struct ServerConfig {
  ListenAddress listen;
  ListenAddress metrics_listen;
  std::string data_dir;
  std::string port_file;  // empty: none
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  // What finished jobs leave; zero is never.
  absl::Duration archive_after = absl::Hours(1);
  absl::Duration retention = absl::Hours(24 * 30);  // of points, events, logs and samples
  absl::Duration checkpoint_retention = absl::ZeroDuration();
  absl::Duration worker_retention = absl::Hours(24 * 7);  // of lost workers; zero: never
  absl::Duration metrics_linger = absl::Minutes(2);
  absl::Duration drain_grace = absl::Seconds(5);
  int metrics_max_jobs = 200;
  int64_t min_free_bytes = 256 << 20;  // of the data directory's disk; below it no job is accepted
  int64_t reserve_bytes = 16 << 20;    // kept for what must still be written when the disk is full
  int64_t artifact_quota_bytes = int64_t{50} << 30;
  absl::Duration artifact_retention = absl::Hours(24 * 30);  // of an upload that no live job names; zero is never
  std::string log_level = "info";
  std::string log_format = "text";
};

// What the process ends with; docs/exit-codes.md.
inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 64;
inline constexpr int kExitData = 65;        // the data directory is damaged or of a newer schema
inline constexpr int kExitPort = 69;        // an address cannot be listened on
inline constexpr int kExitDataGone = 74;    // the data directory was deleted or replaced while the server ran
inline constexpr int kExitDataLocked = 73;  // another server has the data directory, or it cannot be made

// Of a server that did not start, or could not go on.
int ExitCodeOf(const absl::Status& status);

// Reads the command line. Returns kExitOk and fills `config`, or the exit status of a process that has nothing more to
// do; `*printed` is then what goes to stdout (--help, --version) or, after kExitUsage, one line for stderr.
struct ParsedConfig {
  bool run = false;
  int exit_code = kExitOk;
  std::string output;
  ServerConfig config;
};
ParsedConfig ParseServerConfig(int argc, const char* const* argv);

}  // namespace ampd::server
