#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/yaml/yaml_tree.h"

// Configuration files of daemons: YAML without nesting, whose keys are the names of flags.
//
//   data-dir: /var/lib/ampd
//   grant: ["cert:worker-1=agent", "user:alice=submitter"]
//   allow-unauthenticated-loopback: true
//
// Every error is INVALID_ARGUMENT with one line that begins with the position: "server.yaml:3:1: ...".
namespace ampd {

// The words for a value that a switch may have in a configuration file.
inline constexpr char kSwitchOn[] = "true";
inline constexpr char kSwitchOff[] = "false";

// Reads a configuration file. The file must be one that only its owner, this process's user or root, may write, because
// it can give rights to others. A file without keys is valid.
absl::StatusOr<std::vector<YamlEntry>> ReadConfigFile(const std::string& path);

// Reads the entries of a text. `source` names it in errors.
absl::StatusOr<std::vector<YamlEntry>> ParseConfig(std::string_view text, const std::string& source);

// How many values a key takes.
enum class ConfigValues { kSwitch, kOne, kList };

// Returns the values of an entry. Refuses an entry that has another number of values, a nested one, or none.
absl::StatusOr<std::vector<YamlNode>> ValuesOf(const YamlEntry& entry, ConfigValues kind);

// The error for a key that is no flag. `keys` are those that there are.
absl::Status UnknownKey(const YamlEntry& entry, const std::vector<std::string>& keys);

// The error for what is at `mark`.
absl::Status ErrorAt(const SourceMark& mark, const std::string& message);

}  // namespace ampd
