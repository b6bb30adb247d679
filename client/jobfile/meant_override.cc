#include "client/jobfile/meant_override.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/yaml/look_alike.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/foreign_names.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxMeant = 60;  // most bytes of a suggestion

// Returns the number of items of the list `field` at the path, or of its default if the file does not set it.
size_t NumItems(const YamlNode& root, const std::string& path, const FieldDescriptor& field) {
  const YamlNode* node = &root;
  for (const absl::string_view word : absl::StrSplit(path, '.')) {
    const auto entry = std::find_if(node->entries.begin(), node->entries.end(),
                                    [word](const YamlEntry& one) { return one.key == word; });
    if (entry == node->entries.end()) {
      const FieldLimits* const limits = LimitsOf(field);
      const std::string text = limits == nullptr ? "" : limits->default_value;
      return text.size() > 2 && text.front() == '[' ? std::count(text.begin(), text.end(), ',') + 1 : 0;
    }
    node = &entry->value;
  }
  return node->items.size();
}

// Returns the field that the assignment, which begins or ends with a mark of other programs for "remove", names; empty
// if it is no such assignment: "eval" for "eval-", "~eval" or "!eval".
std::string RemovedField(const std::string& assignment, const Descriptor& type) {
  const bool has_mark = assignment.starts_with('~') || assignment.starts_with('!');
  const std::string field = has_mark                    ? assignment.substr(1)
                            : assignment.ends_with('-') ? assignment.substr(0, assignment.size() - 1)
                                                        : "";
  return FieldAt(type, field) == nullptr ? "" : field;
}

// Returns the value that a field may be meant to get if it is named without one: "true" for a switch, "{}" for a choice
// without fields. Empty if there is none.
std::string ValueOfNamed(const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return "true";
  }
  const bool is_choice = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated() &&
                         field.real_containing_oneof() != nullptr;
  return is_choice ? MeantBySwitch(*field.message_type()) : "";
}

// Replaces the words of a path by the names that were meant. `wrong` gets the words that were replaced. Returns "" if a
// word is not known.
std::string WithKnownWords(const std::string& path, const Descriptor& type, std::vector<std::string>* wrong) {
  std::vector<std::string> meant;
  const Descriptor* level = &type;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    const std::string word(part);
    if (level == nullptr) {
      return "";
    }
    const std::string usual = UsualName(word);
    const std::string name = FindField(*level, word) != nullptr    ? word
                             : FindField(*level, usual) != nullptr ? usual
                                                                   : Nearest(word, FieldNames(*level));
    if (name.empty()) {
      return "";
    }
    if (name != word) {
      wrong->push_back(absl::StrCat("'", Shortened(word, kMaxMeant), "'"));
    }
    level = TypeOfField(level, name);
    meant.push_back(name);
  }
  return absl::StrJoin(meant, ".");
}

}  // namespace

const FieldDescriptor* FieldAt(const Descriptor& type, const std::string& path) {
  const Descriptor* level = &type;
  const FieldDescriptor* field = nullptr;
  for (const absl::string_view word : absl::StrSplit(path, '.')) {
    if (field != nullptr && field->is_map()) {
      return field;
    }
    const std::string name(word.substr(0, word.find('[')));
    field = level == nullptr ? nullptr : FindField(*level, name);
    if (field == nullptr) {
      return nullptr;
    }
    level = TypeOfField(level, name);
  }
  return field;
}

bool IsPathInJobFile(const std::string& path) { return FieldAt(*v1::JobSpec::descriptor(), path) != nullptr; }

PathRefusal ExplainNoAssignment(const std::string& assignment, const Descriptor& type) {
  if (const std::string field = RemovedField(assignment, type); !field.empty()) {
    return {absl::StrCat("has no '='; --set cannot remove a field, so remove ", field, " in the file")};
  }
  const FieldDescriptor* const named = FieldAt(type, assignment);
  const UsualField usual = UsualFieldOf(assignment, "");
  const size_t colon = assignment.find(':');
  const std::string plain = WithPlainCharacters(assignment);  // The full-width form of '=' is no '='.
  const std::string value = named == nullptr ? usual.value : ValueOfNamed(*named);
  const std::string meant = absl::StrContains(plain, "=") ? plain
                            : !value.empty() ? absl::StrCat(named == nullptr ? usual.path : assignment, "=", value)
                            : colon == std::string::npos
                                ? ""
                                : absl::StrCat(assignment.substr(0, colon), "=",
                                               absl::StripLeadingAsciiWhitespace(assignment.substr(colon + 1)));
  return {"has no '='; an override is PATH=VALUE, for example train.steps=500", Shortened(meant, kMaxMeant)};
}

std::optional<PathRefusal> ExplainForeignPath(const std::string& path, const Descriptor& type, const YamlNode& root) {
  if (path.empty() || FieldAt(type, path) != nullptr) {
    return std::nullopt;
  }
  const std::string bare = absl::StrReplaceAll(path, {{"\"", ""}, {"'", ""}});
  if (bare != path && FieldAt(type, bare) != nullptr) {
    return PathRefusal{"a path has no quotes", bare};
  }
  const std::string unmarked = path.substr(std::min(path.find_first_not_of("+-"), path.size()));
  if (unmarked != path && FieldAt(type, unmarked) != nullptr) {
    return PathRefusal{"a path begins with a name", unmarked};
  }
  const std::string list = path.ends_with('+') ? path.substr(0, path.size() - 1) : "";
  if (const FieldDescriptor* const field = FieldAt(type, list);
      field != nullptr && field->is_repeated() && !field->is_map() && !list.ends_with(']')) {
    return PathRefusal{"'+=' is not supported; the index after the last item adds one",
                       absl::StrCat(list, "[", NumItems(root, list, *field), "]")};
  }
  const size_t dot = path.find('.');
  const std::string first = path.substr(0, dot);
  if (dot != std::string::npos && dot > 0 && FindField(type, first) == nullptr &&
      FieldAt(type, path.substr(dot + 1)) != nullptr) {
    return PathRefusal{
        absl::StrCat("'", Shortened(first, kMaxMeant), "' is not a field of a job file; a path begins at its top"),
        path.substr(dot + 1)};
  }
  std::vector<std::string> wrong;
  const std::string meant = WithKnownWords(path, type, &wrong);
  return meant.empty() || wrong.size() < 2
             ? std::nullopt
             : std::optional(PathRefusal{absl::StrCat(absl::StrJoin(wrong, " and "), " are not fields"), meant});
}

}  // namespace ampd::client
