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

// The two values of a switch (a flag that is on or off) in a configuration file.
inline constexpr char kSwitchOn[] = "true";
inline constexpr char kSwitchOff[] = "false";

// Reads a configuration file. Refuses a file that another user could write (CheckOnlyOwnerWrites), because a
// configuration can give rights to users. A file without keys is valid.
absl::StatusOr<std::vector<YamlEntry>> ReadConfigFile(const std::string& path);

// Parses the text of a configuration file. Errors name the file `source`.
absl::StatusOr<std::vector<YamlEntry>> ParseConfig(std::string_view text, const std::string& source);

// The form of a key's value: true or false, one value, or a list of values.
enum class ConfigValues { kSwitch, kOne, kList };

// Returns the values of an entry. INVALID_ARGUMENT if the entry has no value, if its value does not have the form
// `kind`, or if a value is itself a list or has keys.
absl::StatusOr<std::vector<YamlNode>> ValuesOf(const YamlEntry& entry, ConfigValues kind);

// Makes the error for an entry whose key is not the name of a flag. The error suggests a similar key of `keys`, which
// holds all known keys.
absl::Status UnknownKey(const YamlEntry& entry, const std::vector<std::string>& keys);

// Makes an INVALID_ARGUMENT error whose message begins with the position `mark`.
absl::Status ErrorAt(const SourceMark& mark, const std::string& message);

}  // namespace ampd
