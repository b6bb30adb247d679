#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/flags/settings.h"

namespace ampd {

// A configuration that was read again.
struct ReadConfig {
  Settings settings;
  std::string log_level;
  std::set<std::string> reloadable;  // The keys that `apply` takes over, beside log-level.
  std::function<void()> apply;       // Makes the program use the values of these keys; null: there are none.
};

// What SIGHUP does in a daemon: it reads the command line and the configuration file again and applies what can change
// without a restart. The log names each key that changed, and whether it was applied or needs a restart. If the
// configuration is not valid, nothing changes and the log says why. Single-threaded; owned by the thread that receives
// signals.
class Reloader {
 public:
  struct Options {
    std::string config_file;  // Empty: there is nothing to read again.
    Settings running;         // What the program was started with.
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
