#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd {

// The values of one flag, from the command line, the configuration file or the flag's default.
struct Setting {
  std::string key;                  // The flag's name without the leading dashes: "data-dir".
  std::string type;                 // The kind of its values: "DURATION".
  bool is_list = false;             // Whether it may have several values.
  bool is_set = false;              // Whether the command line or the file sets the flag.
  std::vector<std::string> values;  // If is_set, the values, with absolute paths; otherwise the default, if any.

  friend bool operator==(const Setting&, const Setting&) = default;
};

using Settings = std::vector<Setting>;

// Writes the settings as a configuration file. Reading this file gives the same settings. Flags that are not set become
// comments, with their default if they have one. INVALID_ARGUMENT if a value is not UTF-8, which YAML can't hold. The
// first line of the file names `program`.
absl::StatusOr<std::string> WriteSettings(const Settings& settings, std::string_view program);

// A key whose new values differ from those with which the program runs.
struct SettingChange {
  std::string key;
  std::string from, to;     // The values, as in a configuration file: "[a, b]" for a list.
  bool is_applied = false;  // Whether the program runs with the new values from now on; otherwise it needs a restart.
};

// The settings that a program runs with. Some of them can change while it runs. Thread-compatible.
class RunningSettings {
 public:
  explicit RunningSettings(Settings settings) : settings_(std::move(settings)) {}

  // Compares the settings with `next`, which has the same flags in the same order. Returns the keys whose values
  // differ. Keys in `reloadable` take their values from `next`. The others keep their values, so the next call returns
  // them again.
  std::vector<SettingChange> Reload(const Settings& next, const std::set<std::string>& reloadable);

 private:
  Settings settings_;
};

}  // namespace ampd
