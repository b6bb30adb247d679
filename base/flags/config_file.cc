#include "base/flags/config_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd {
namespace {

constexpr size_t kMaxShown = 60;
constexpr YamlKind kConfigKind = {.file = "a configuration file",
                                  .files = "configuration files",
                                  .content = "one configuration",
                                  .about_archives = "; a configuration file is a text in YAML",
                                  .is_plain = true};

std::string Quoted(const std::string& text) { return absl::StrCat("'", Shortened(text, kMaxShown), "'"); }

std::string Found(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kMap:
      return "a mapping; keys cannot be nested";
    case YamlNode::Kind::kSequence:
      return "a list";
    default:
      return Quoted(node.text);
  }
}

absl::Status NoValue(const YamlEntry& entry) {
  const std::string& word = entry.value.text;
  return ErrorAt(word.empty() ? entry.mark : entry.value.mark,  // yaml-cpp gives a missing value no position.
                 word.empty() ? absl::StrCat(entry.key, " has no value; add one, or remove the line")
                              : absl::StrCat(entry.key, " is ", Quoted(word),
                                             ", which means no value in YAML; remove the line, or put the text in "
                                             "quotes"));
}

absl::StatusOr<std::vector<YamlNode>> ListOf(const YamlEntry& entry) {
  const YamlNode& list = entry.value;
  if (list.kind != YamlNode::Kind::kSequence) {
    return ErrorAt(list.mark, absl::StrCat(entry.key, " takes a list, not ", Found(list),
                                           list.kind == YamlNode::Kind::kScalar
                                               ? absl::StrCat("; write ", entry.key, ": [", list.text, "]")
                                               : std::string()));
  }
  for (const YamlNode& item : list.items) {
    if (item.kind != YamlNode::Kind::kScalar) {
      return ErrorAt(item.mark, absl::StrCat("an item of ", entry.key, " must be a text, not ",
                                             item.kind == YamlNode::Kind::kNull ? "empty" : Found(item)));
    }
  }
  return list.items;
}

}  // namespace

absl::Status ErrorAt(const SourceMark& mark, const std::string& message) {
  return absl::InvalidArgumentError(OneLine(absl::StrCat(mark.ToString(), ": ", message)));
}

absl::StatusOr<std::vector<YamlEntry>> ReadConfigFile(const std::string& path) {
  const SourceMark file = {.source = path};
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return ErrorAt(file, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    return ErrorAt(file, "is not a file; --config takes a file in YAML");
  }
  if (const absl::Status closed = CheckOnlyOwnerWrites(path, "the configuration file"); !closed.ok()) {
    return ErrorAt(file, std::string(closed.message()));
  }
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxYamlBytes);
  if (!text.ok()) {
    return ErrorAt(file, absl::StrCat("cannot be read: ", std::string(text.status().message())));
  }
  return ParseConfig(*text, path);
}

absl::StatusOr<std::vector<YamlEntry>> ParseConfig(std::string_view text, const std::string& source) {
  if (IsEmptyYaml(text)) {
    return std::vector<YamlEntry>();
  }
  std::vector<Problem> problems;
  std::optional<YamlNode> root = ParseYaml(text, source, kConfigKind, &problems);
  if (!problems.empty()) {
    return ErrorAt(problems.front().mark, problems.front().message);
  }
  if (!root.has_value() || (root->kind != YamlNode::Kind::kMap && root->kind != YamlNode::Kind::kNull)) {
    return ErrorAt(root.has_value() ? root->mark : SourceMark{.source = source},
                   "a configuration file has lines of the form KEY: VALUE");
  }
  return std::move(root->entries);
}

absl::StatusOr<std::vector<YamlNode>> ValuesOf(const YamlEntry& entry, ConfigValues kind) {
  const YamlNode& value = entry.value;
  if (value.kind == YamlNode::Kind::kNull) {
    return NoValue(entry);
  }
  if (kind == ConfigValues::kList) {
    return ListOf(entry);
  }
  if (kind == ConfigValues::kSwitch && value.text != kSwitchOn && value.text != kSwitchOff) {
    return ErrorAt(value.mark, absl::StrCat(entry.key, " must be true or false, not ", Found(value)));
  }
  return value.kind == YamlNode::Kind::kScalar
             ? absl::StatusOr<std::vector<YamlNode>>({value})
             : ErrorAt(value.mark, absl::StrCat(entry.key, " takes one value, not ", Found(value)));
}

absl::Status UnknownKey(const YamlEntry& entry, const std::vector<std::string>& keys) {
  const std::string name = absl::StrReplaceAll(absl::StripPrefix(entry.key, "--"), {{"_", "-"}});
  const bool is_key = std::find(keys.begin(), keys.end(), name) != keys.end();
  const std::string nearest = is_key ? name : Nearest(name, keys);
  return ErrorAt(entry.mark,
                 absl::StrCat("there is no key ", Quoted(entry.key),
                              nearest.empty() ? "; keys are the names of flags without the leading dashes, as in --help"
                                              : absl::StrCat("; did you mean '", nearest, "'?")));
}

}  // namespace ampd
