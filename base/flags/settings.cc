#include "base/flags/settings.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/yaml/yaml_scalar.h"

namespace ampd {
namespace {

constexpr size_t kMaxShownValue = 200;

// Returns one value as YAML. ReadConfigFile takes every scalar as a text, so numbers and switches need no quotes.
std::string ValueText(const std::string& value) {
  const bool is_number =
      !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  return is_number || value == "true" || value == "false" ? value : YamlScalar(value);
}

std::string ListText(const std::vector<std::string>& values) {
  return absl::StrCat(
      "[", absl::StrJoin(values, ", ", [](std::string* out, const std::string& value) { *out += ValueText(value); }),
      "]");
}

// Returns all values of a setting on one line.
std::string ValuesText(const Setting& setting) {
  if (setting.is_list) {
    return ListText(setting.values);
  }
  return setting.values.empty() ? "" : ValueText(setting.values.front());
}

std::string SetLines(const Setting& setting) {
  if (!setting.is_list) {
    return absl::StrCat(setting.key, ": ", ValuesText(setting), "\n");
  }
  std::string lines = absl::StrCat(setting.key, ":\n");
  for (const std::string& value : setting.values) {
    absl::StrAppend(&lines, "  - ", ValueText(value), "\n");
  }
  return lines;
}

// Returns a comment line for a flag that is not set. It shows the flag's default or, if there is none, the kind of
// value.
std::string CommentLine(const Setting& setting) {
  const std::string example = setting.is_list ? absl::StrCat("[", setting.type, "]") : setting.type;
  return absl::StrCat("# ", setting.key, ": ", setting.values.empty() ? example : ValuesText(setting), "\n");
}

}  // namespace

absl::StatusOr<std::string> WriteSettings(const Settings& settings, std::string_view program) {
  std::string set;
  std::string defaults;
  std::string rest;
  for (const Setting& setting : settings) {
    for (const std::string& value : setting.values) {
      if (const auto invalid = FirstInvalidUtf8(value); invalid.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("--", setting.key, ": ", NotUtf8(value, *invalid),
                                                       ", so a configuration file cannot hold it"));
      }
    }
    std::string* const section = setting.is_set ? &set : setting.values.empty() ? &rest : &defaults;
    *section += setting.is_set ? SetLines(setting) : CommentLine(setting);
  }
  return absl::StrCat("# Configuration of ", std::string(program), "\n", set, "\n# Defaults\n", defaults,
                      "\n# Not set\n", rest);
}

std::vector<SettingChange> RunningSettings::Reload(const Settings& next, const std::set<std::string>& reloadable) {
  std::vector<SettingChange> changes;
  for (size_t i = 0; i < settings_.size() && i < next.size(); ++i) {
    Setting& running = settings_[i];
    if (running.values == next[i].values) {
      continue;
    }
    changes.push_back({.key = running.key,
                       .from = Shortened(ValuesText(running), kMaxShownValue),
                       .to = Shortened(ValuesText(next[i]), kMaxShownValue),
                       .is_applied = reloadable.contains(running.key)});
    if (changes.back().is_applied) {
      running = next[i];
    }
  }
  return changes;
}

}  // namespace ampd
