#include "client/jobfile/unknown_key.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"

namespace ampd::client {

std::string QuotedKey(const std::string& key) { return absl::StrCat("'", Shortened(key, kMaxShownText), "'"); }

std::string Written(const std::string& path, bool is_override, const std::string& value) {
  const std::vector<std::string> words = absl::StrSplit(path, '.');
  const std::string shown = value.empty() ? "..." : value;
  if (is_override) {
    return value.empty() ? path : absl::StrCat(path, "=", value);
  }
  return words.size() > 1 ? absl::StrCat(absl::StrJoin(words, ": {"), ": ", shown, std::string(words.size() - 1, '}'))
         : value.empty()  ? path
                          : absl::StrCat(path, ": ", value);
}

KeyedValue KeyedValueOf(const UnknownField& unknown) {
  const bool has_value = unknown.value != nullptr && unknown.value->kind != YamlNode::Kind::kNull;
  const size_t end = has_value ? std::string::npos : unknown.key.find_first_of(":= ");
  const size_t value = end == std::string::npos ? end : unknown.key.find_first_not_of(":= ", end);
  return value == std::string::npos ? KeyedValue()
                                    : KeyedValue{FindField(*unknown.type, unknown.key.substr(0, end)),
                                                 Shortened(unknown.key.substr(value), 40)};
}

std::string ChoiceIn(const UnknownField& unknown) {
  const bool has_text = unknown.value != nullptr && unknown.value->kind == YamlNode::Kind::kScalar;
  const google::protobuf::FieldDescriptor* const choice =
      has_text ? FindField(*unknown.type, absl::AsciiStrToLower(unknown.value->text)) : nullptr;
  return choice != nullptr && choice->real_containing_oneof() != nullptr &&
                 choice->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE
             ? FieldName(*choice)
             : "";
}

std::string ValueText(const UnknownField& unknown) {
  const YamlNode* value = unknown.value;
  if (value != nullptr && value->kind == YamlNode::Kind::kMap) {
    const auto entry = std::find_if(value->entries.begin(), value->entries.end(),
                                    [](const YamlEntry& one) { return one.key == "enabled"; });
    value = entry == value->entries.end() ? nullptr : &entry->value;
  }
  return value != nullptr && value->kind == YamlNode::Kind::kScalar ? value->text : "";
}

const YamlNode* SectionOf(const UnknownField& unknown) {
  const YamlNode* node = unknown.root;
  for (const auto word : absl::StrSplit(unknown.section, '.', absl::SkipEmpty())) {
    const auto entry =
        std::find_if(node->entries.begin(), node->entries.end(), [&](const YamlEntry& one) { return one.key == word; });
    if (entry == node->entries.end()) {
      return nullptr;
    }
    node = &entry->value;
  }
  return node;
}

const google::protobuf::FieldDescriptor* ChoiceOfSection(const UnknownField& unknown) {
  const YamlNode* const node = SectionOf(unknown);
  if (node == nullptr) {
    return nullptr;
  }
  for (const YamlEntry& entry : node->entries) {
    const google::protobuf::FieldDescriptor* const own = FindField(*unknown.type, entry.key);
    const google::protobuf::FieldDescriptor* const choice =
        own == nullptr && entry.value.kind == YamlNode::Kind::kScalar
            ? FindField(*unknown.type, absl::AsciiStrToLower(entry.value.text))
            : own;
    if (choice != nullptr && choice->real_containing_oneof() != nullptr &&
        choice->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      return choice;
    }
  }
  return nullptr;
}

}  // namespace ampd::client
