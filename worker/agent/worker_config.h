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
  TlsFiles tls;  // For the connection to the server.
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
  std::string ready_file;  // Empty: write none.
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
  std::string output;          // What --help or --version print; empty: the worker is to start.
  bool prints_config = false;  // Whether the worker is to print its configuration instead.
  WorkerConfig config;         // With absolute paths, and with the defaults that depend on the host.
  Settings settings;           // What `config` was made from.
  std::string config_file;     // Empty: none.
};

// INVALID_ARGUMENT with one line if the command line or the file is not valid. What the values name is not looked at.
absl::StatusOr<ParsedWorkerConfig> ParseWorkerConfig(int argc, const char* const* argv);

// The same for `ampd-worker health`: the flags of the worker that it asks, none of which is required.
absl::StatusOr<ParsedWorkerConfig> ParseHealthConfig(int argc, const char* const* argv);

// The name of this host.
std::string HostName();

}  // namespace ampd::agent
