#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/flags/settings.h"
#include "base/tls/tls_files.h"

namespace ampd::agent {

// Everything an operator can configure; `ampd-worker --help` describes it.
struct WorkerConfig {
  std::string server;
  std::string token_file;
  TlsFiles tls;  // For TLS on the connection to the server.
  std::string name;
  std::vector<std::string> tenants;
  std::string state_folder;
  std::string checkpoint_root;
  bool checkpoint_root_shared = false;
  std::vector<std::string> data_roots;
  std::string data_group;
  std::string shim;
  std::string trainer;
  std::string metrics_listen;
  TlsFiles metrics_tls;
  std::string ready_file;  // Empty: no ready file.
  std::vector<std::string> devices;
  int num_threads = 0;
  bool no_gpu_metrics = false;
  bool no_warm = false;
  bool stop_trainers_on_exit = false;
  absl::Duration exit_grace = absl::Seconds(20);
  int64_t artifact_cache_bytes = int64_t{20} << 30;
  std::string log_format = "text";
  std::string log_level = "info";
};

// The result of reading the command line and the configuration file.
struct ParsedWorkerConfig {
  std::string output;          // Text of --help or --version; if not empty, print it and exit.
  bool prints_config = false;  // Print the configuration and exit.
  WorkerConfig config;         // Has absolute paths, and defaults that depend on the host.
  Settings settings;           // The settings from which `config` was made.
  std::string config_file;     // Empty: no configuration file was read.
};

// Reads the command line and the configuration file. INVALID_ARGUMENT, with a message of one line, if one of them is
// not valid. Does not check whether the files and folders in the values exist.
absl::StatusOr<ParsedWorkerConfig> ParseWorkerConfig(int argc, const char* const* argv);

// Reads the command line of `ampd-worker health`, which has the flags of a worker and requires none of them.
absl::StatusOr<ParsedWorkerConfig> ParseHealthConfig(int argc, const char* const* argv);

// The name of this host.
std::string HostName();

}  // namespace ampd::agent
