#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd {

// What the command line and the configuration file set one flag to.
struct Setting {
  std::string key;                  // The flag's name without dashes: "data-dir".
  std::string type;                 // What its values are, for people: "DURATION".
  bool is_list = false;             // Whether it may have several values.
  bool is_set = false;              // Whether one of the two sets it.
  std::vector<std::string> values;  // If it is set, its values, with absolute paths; otherwise its default, if any.

  friend bool operator==(const Setting&, const Setting&) = default;
};

using Settings = std::vector<Setting>;

// Writes the settings as a configuration file, which gives the same settings when it is read. Flags that have their
// default are in comments, and so are those without a value. INVALID_ARGUMENT if a value is not UTF-8, which YAML can't
// hold. `program` is the one whose configuration it is.
absl::StatusOr<std::string> WriteSettings(const Settings& settings, std::string_view program);

// A key whose values are not those that the program runs with.
struct SettingChange {
  std::string key;
  std::string from, to;     // The values, as in a configuration file: "[a, b]" for a list.
  bool is_applied = false;  // Whether the program runs with the new values from now on; otherwise it needs a restart.
};

// The settings that a program runs with. Some of them can change while it runs. Thread-compatible.
class RunningSettings {
 public:
  explicit RunningSettings(Settings settings) : settings_(std::move(settings)) {}

  // Compares with `next`, the same flags in the same order. The keys in `reloadable` take the values of `next`; the
  // others stay, and are in the result of the next call too.
  std::vector<SettingChange> Reload(const Settings& next, const std::set<std::string>& reloadable);

 private:
  Settings settings_;
};

}  // namespace ampd
