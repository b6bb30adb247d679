#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/flags/settings.h"

namespace ampd {

// The result of reading the configuration again.
struct ReadConfig {
  Settings settings;
  std::string log_level;
  std::set<std::string> reloadable;  // Keys that can change without a restart, besides log-level.
  std::function<void()> apply;       // Makes the program use the new values of these keys; null: no such keys.
};

// Reloads the configuration of a daemon that received SIGHUP. Reads the command line and the configuration file again
// and applies the changes that need no restart. The log names each key that changed, and whether it was applied or
// needs a restart. If the configuration is not valid, nothing changes and the log says why. Single-threaded; owned by
// the thread that receives signals.
class Reloader {
 public:
  struct Options {
    std::string config_file;  // Path of the configuration file; empty: none, so nothing is reloaded.
    Settings running;         // The settings with which the program was started.
    // Reads the configuration. INVALID_ARGUMENT with one line that says what is wrong.
    std::function<absl::StatusOr<ReadConfig>()> read;
  };
  explicit Reloader(Options options) : options_(std::move(options)), running_(options_.running) {}

  void Reload();

 private:
  void Apply(const ReadConfig& next);

  const Options options_;
  RunningSettings running_;
};

}  // namespace ampd
