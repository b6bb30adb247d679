#include "client/render/yaml_text.h"

#include <google/protobuf/util/json_util.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/yaml/yaml_scalar.h"
#include "client/render/field_name.h"

namespace ampd::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename Float>
std::string FloatText(Float number) {
  if (!std::isfinite(number)) {
    return std::isnan(number) ? ".nan" : number > 0 ? ".inf" : "-.inf";
  }
  std::array<char, 32> buffer = {};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  std::string text(buffer.data(), end);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && !absl::StrContains(text, ".")) {
    text.insert(exponent, ".0");
  }
  return text;
}

// Returns the value of a message that JSON writes as a single text, such as a time.
YamlValue WellKnown(const Message& message) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json).ok() || json.size() < 2 || json.front() != '"') {
    return YamlTextOf("");
  }
  return YamlTextOf(json.substr(1, json.size() - 2));
}

YamlValue MessageValue(const Message& message) {
  return absl::StartsWith(message.GetDescriptor()->full_name(), "google.protobuf.") ? WellKnown(message)
                                                                                    : YamlOf(message);
}

// Returns the value of a field. For a repeated field, returns the item at `index`; otherwise `index` is -1.
YamlValue FieldValue(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& from = *message.GetReflection();
  const bool item = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return YamlNumberOf(
          int64_t{item ? from.GetRepeatedInt32(message, &field, index) : from.GetInt32(message, &field)});
    case FieldDescriptor::CPPTYPE_INT64:
      return YamlNumberOf(
          static_cast<int64_t>(item ? from.GetRepeatedInt64(message, &field, index) : from.GetInt64(message, &field)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return YamlNumberOf(
          uint64_t{item ? from.GetRepeatedUInt32(message, &field, index) : from.GetUInt32(message, &field)});
    case FieldDescriptor::CPPTYPE_UINT64:
      return YamlNumberOf(static_cast<uint64_t>(item ? from.GetRepeatedUInt64(message, &field, index)
                                                     : from.GetUInt64(message, &field)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return YamlNumberOf(item ? from.GetRepeatedDouble(message, &field, index) : from.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return YamlNumberOf(item ? from.GetRepeatedFloat(message, &field, index) : from.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return YamlFlagOf(item ? from.GetRepeatedBool(message, &field, index) : from.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = item ? from.GetRepeatedEnumValue(message, &field, index) : from.GetEnumValue(message, &field);
      const auto* value = field.enum_type()->FindValueByNumber(number);
      return value == nullptr ? YamlNumberOf(int64_t{number}) : YamlTextOf(value->name());
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = item ? from.GetRepeatedString(message, &field, index) : from.GetString(message, &field);
      return YamlTextOf(field.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text) : text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return MessageValue(item ? from.GetRepeatedMessage(message, &field, index) : from.GetMessage(message, &field));
}

std::string KeyText(const Message& entry, const FieldDescriptor& key) {
  const YamlValue value = FieldValue(entry, key, -1);
  return key.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? entry.GetReflection()->GetString(entry, &key)
                                                           : std::get<std::string>(value.value);
}

// Returns the entries of a map field, sorted by their keys.
YamlValue MapValue(const Message& message, const FieldDescriptor& field) {
  const Reflection& from = *message.GetReflection();
  std::map<std::string, YamlValue> sorted;
  for (int i = 0; i < from.FieldSize(message, &field); ++i) {
    const Message& entry = from.GetRepeatedMessage(message, &field, i);
    sorted.emplace(KeyText(entry, *field.message_type()->map_key()),
                   FieldValue(entry, *field.message_type()->map_value(), -1));
  }
  YamlValue::Mapping mapping;
  for (auto& [key, value] : sorted) {
    mapping.push_back({key, std::move(value)});
  }
  return {std::move(mapping)};
}

YamlValue ListValue(const Message& message, const FieldDescriptor& field) {
  YamlValue::List items;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    items.push_back(FieldValue(message, field, i));
  }
  return {std::move(items)};
}

bool IsEmptyCollection(const YamlValue& value) {
  const auto* list = std::get_if<YamlValue::List>(&value.value);
  const auto* mapping = std::get_if<YamlValue::Mapping>(&value.value);
  return (list != nullptr && list->empty()) || (mapping != nullptr && mapping->empty());
}

void Append(const YamlValue& value, int indent, std::string* out);

// Appends a value after "key:" or "-", which begins in the column `indent`. A mapping in a list begins on the same line
// as the dash.
void AppendAfter(const YamlValue& value, int indent, bool is_item, std::string* out) {
  constexpr int kStep = 2;
  const bool is_mapping = std::holds_alternative<YamlValue::Mapping>(value.value);
  if (std::holds_alternative<std::string>(value.value) || IsEmptyCollection(value)) {
    *out += " ";
    Append(value, indent, out);
    *out += "\n";
  } else if (is_item && is_mapping) {
    std::string block;
    Append(value, indent + kStep, &block);
    absl::StrAppend(out, " ", block.substr(indent + kStep));
  } else {
    *out += "\n";
    Append(value, indent + kStep, out);
  }
}

// Appends a scalar as it is, and a list or mapping as lines.
void Append(const YamlValue& value, int indent, std::string* out) {
  const std::string margin(indent, ' ');
  if (const auto* scalar = std::get_if<std::string>(&value.value)) {
    *out += *scalar;
  } else if (IsEmptyCollection(value)) {
    *out += std::holds_alternative<YamlValue::List>(value.value) ? "[]" : "{}";
  } else if (const auto* list = std::get_if<YamlValue::List>(&value.value)) {
    for (const YamlValue& item : *list) {
      absl::StrAppend(out, margin, "-");
      AppendAfter(item, indent, /*is_item=*/true, out);
    }
  } else {
    for (const auto& [key, field] : std::get<YamlValue::Mapping>(value.value)) {
      absl::StrAppend(out, margin, YamlScalar(key), ":");
      AppendAfter(field, indent, /*is_item=*/false, out);
    }
  }
}

}  // namespace

YamlValue YamlTextOf(std::string_view text) { return {YamlScalar(text)}; }
YamlValue YamlNumberOf(int64_t number) { return {absl::StrCat(number)}; }
YamlValue YamlNumberOf(uint64_t number) { return {absl::StrCat(number)}; }
YamlValue YamlNumberOf(double number) { return {FloatText(number)}; }
YamlValue YamlNumberOf(float number) { return {FloatText(number)}; }
YamlValue YamlFlagOf(bool flag) { return {std::string(flag ? "true" : "false")}; }

YamlValue YamlOf(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  YamlValue::Mapping mapping;
  for (const FieldDescriptor* field : fields) {
    mapping.push_back({FieldName(*field), field->is_map()        ? MapValue(message, *field)
                                          : field->is_repeated() ? ListValue(message, *field)
                                                                 : FieldValue(message, *field, -1)});
  }
  return {std::move(mapping)};
}

std::string SnakeCase(std::string_view name) {
  std::string snake;
  for (const char c : name) {
    if (absl::ascii_isupper(c)) {
      snake += '_';
    }
    snake += absl::ascii_tolower(c);
  }
  return snake;
}

std::string WriteYaml(const YamlValue& value) {
  std::string text;
  Append(value, 0, &text);
  const bool has_end = !text.empty() && text.back() == '\n';
  return has_end ? text : text + "\n";
}

}  // namespace ampd::client
