#include "client/jobfile/unknown_field.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/yaml/look_alike.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"

namespace ampd::client {
namespace {

std::string QuotedKey(const std::string& key) { return absl::StrCat("'", Shortened(key, kMaxShownText), "'"); }

// Returns how many of the path's first words the job file has.
size_t NumWordsIn(const YamlNode& root, const std::string& path) {
  const YamlNode* node = &root;
  size_t num_words = 0;
  for (const auto word : absl::StrSplit(path, '.')) {
    const auto entry =
        std::find_if(node->entries.begin(), node->entries.end(), [&](const YamlEntry& one) { return one.key == word; });
    if (entry == node->entries.end()) {
      // "optimizer: {name: adamw}" is not valid in a job file, but shows that adamw is meant as the choice of the
      // optimizer.
      num_words += std::any_of(node->entries.begin(), node->entries.end(),
                               [&](const YamlEntry& one) { return absl::EqualsIgnoreCase(one.value.text, word); });
      break;
    }
    node = &entry->value;
    ++num_words;
  }
  return num_words;
}

// Returns the paths to fields with this name, the most likely first: short ones, and of these the ones that suit the
// choices which the job file has made, such as the learning rate of its own optimizer.
std::vector<std::string> LikelyPaths(const UnknownField& unknown, const std::string& name) {
  constexpr size_t kMostPaths = 3;
  constexpr size_t kMostExamined = 100;
  std::vector<std::string> paths = PathsTo(*unknown.whole, name, kMostExamined);
  std::stable_sort(paths.begin(), paths.end(), [&unknown](const std::string& a, const std::string& b) {
    const auto num_a = std::count(a.begin(), a.end(), '.');
    const auto num_b = std::count(b.begin(), b.end(), '.');
    return num_a != num_b ? num_a < num_b : NumWordsIn(*unknown.root, a) > NumWordsIn(*unknown.root, b);
  });
  paths.resize(std::min(paths.size(), kMostPaths));
  return paths;
}

// Whether the unknown key is a mapping in which a field of the job file stands, such as "spec" in what `ampctl job
// submit --dry-run -o yaml` prints.
bool HoldsFields(const UnknownField& unknown) {
  const auto entry = std::find_if(unknown.root->entries.begin(), unknown.root->entries.end(),
                                  [&](const YamlEntry& one) { return one.key == unknown.key; });
  return entry != unknown.root->entries.end() && !entry->value.entries.empty() && !unknown.is_override &&
         FindField(*unknown.type, entry->value.entries.front().key) != nullptr;
}

// Returns the field as the user would write it: in an override the path itself, in a file nested mappings. An empty
// value is shown as "...".
std::string Written(const std::string& path, bool is_override, const std::string& value = "") {
  const std::vector<std::string> words = absl::StrSplit(path, '.');
  const std::string shown = value.empty() ? "..." : value;
  if (is_override) {
    return value.empty() ? path : absl::StrCat(path, "=", value);
  }
  return words.size() > 1 ? absl::StrCat(absl::StrJoin(words, ": {"), ": ", shown, std::string(words.size() - 1, '}'))
         : value.empty()  ? path
                          : absl::StrCat(path, ": ", value);
}

// The assignment in a key such as "steps:3", "steps=3" or "steps 3", which YAML takes for a name without a value.
struct KeyedValue {
  const google::protobuf::FieldDescriptor* field = nullptr;  // null: the key is no such assignment
  std::string value = {};
};

KeyedValue KeyedValueOf(const UnknownField& unknown) {
  const bool has_value = unknown.value != nullptr && unknown.value->kind != YamlNode::Kind::kNull;
  const size_t end = has_value ? std::string::npos : unknown.key.find_first_of(":= ");
  const size_t value = end == std::string::npos ? end : unknown.key.find_first_not_of(":= ", end);
  return value == std::string::npos ? KeyedValue()
                                    : KeyedValue{FindField(*unknown.type, unknown.key.substr(0, end)),
                                                 Shortened(unknown.key.substr(value), 40)};
}

// Returns the choice that the key's value names, such as "adamw" in "optimizer: {name: adamw}"; empty if it names none.
std::string ChoiceIn(const UnknownField& unknown) {
  const bool has_text = unknown.value != nullptr && unknown.value->kind == YamlNode::Kind::kScalar;
  const google::protobuf::FieldDescriptor* const choice =
      has_text ? FindField(*unknown.type, absl::AsciiStrToLower(unknown.value->text)) : nullptr;
  return choice != nullptr && choice->real_containing_oneof() != nullptr &&
                 choice->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE
             ? FieldName(*choice)
             : "";
}

// Returns the name or the path, from the section on, of the field that was probably meant; empty if there is none.
std::string MeantInSection(const UnknownField& unknown) {
  if (const std::string usual = UsualName(unknown.key); FindField(*unknown.type, usual) != nullptr) {
    return usual;
  }
  const std::vector<std::string> like = PathsLike(*unknown.type, unknown.key);
  return like.empty() ? Nearest(unknown.key, FieldNames(*unknown.type)) : like.front();
}

}  // namespace

UnknownFieldAnswer ExplainUnknownField(const UnknownField& unknown) {
  if (unknown.key == "<<") {
    return {
        "merge keys ('<<') are not supported; write the fields out, or use an alias as a whole value: eval: *train"};
  }
  const std::string quoted = QuotedKey(unknown.key);
  if (const KeyedValue keyed = KeyedValueOf(unknown); keyed.field != nullptr) {
    const bool has_colon = unknown.key[unknown.key.find_first_of(":= ")] == ':';
    return {absl::StrCat(has_colon ? "a ':' needs a space after it: " : absl::StrCat(quoted, " has no ':'; write "),
                         FieldName(*keyed.field), ": ", keyed.value)};
  }
  if (unknown.section.empty() && HoldsFields(unknown)) {
    return {absl::StrCat(quoted,
                         " is not a field of a job file, whose fields stand at the top; remove the line and "
                         "indent what is below it less")};
  }
  const std::string no_field =
      absl::StrCat(quoted, " is not a field of ", unknown.section.empty() ? "a job file" : unknown.section);
  if (const std::string plain = WithPlainCharacters(unknown.key); plain != unknown.key) {
    const std::vector<std::string> like =
        absl::StrContains(plain, '.') ? PathsLike(*unknown.type, plain) : std::vector<std::string>();
    return {no_field, FindField(*unknown.type, plain) != nullptr ? plain
                      : like.empty()                             ? ""
                                                                 : Written(like.front(), unknown.is_override)};
  }
  if (const std::string choice = ChoiceIn(unknown); !choice.empty()) {
    return {absl::StrCat(no_field, "; each choice is a field of its own"),
            unknown.is_override ? absl::StrCat(unknown.section, ".", choice, "={}") : absl::StrCat(choice, ": {...}")};
  }
  const std::vector<std::string> names = FieldNames(*unknown.type);
  const std::string usual = UsualName(unknown.key);
  const std::vector<std::string> usual_paths = usual.empty() ? std::vector<std::string>() : LikelyPaths(unknown, usual);
  if (FindField(*unknown.type, usual) == nullptr && !usual_paths.empty()) {
    return {no_field, Written(usual_paths.front(), unknown.is_override)};
  }
  if (const std::string meant = MeantInSection(unknown); !meant.empty()) {
    const bool is_further_in = absl::StrContains(meant, '.');
    return {no_field, Written(meant, unknown.is_override), is_further_in ? std::vector<std::string>() : names};
  }
  if (const UsualField field = UsualFieldOf(unknown.key); !field.path.empty()) {
    const std::string section = unknown.section.empty() ? "" : unknown.section + ".";
    const bool is_here = !section.empty() && absl::StartsWith(field.path, section);
    return {no_field,
            Written(is_here ? field.path.substr(section.size()) : field.path, unknown.is_override, field.value)};
  }
  const std::vector<std::string> elsewhere = LikelyPaths(unknown, unknown.key);
  if (elsewhere.empty()) {
    return {no_field, "", names};
  }
  const std::string here = unknown.section.empty() ? "at the top, but there is one further in"
                                                   : absl::StrCat("of ", unknown.section,
                                                                  absl::StrContains(elsewhere.front(), '.')
                                                                      ? ", but there is one elsewhere"
                                                                      : ", but there is one at the top of the file");
  return {absl::StrCat(quoted, " is not a field ", here), elsewhere.front(),
          elsewhere.size() > 1 ? elsewhere : std::vector<std::string>()};
}

}  // namespace ampd::client
