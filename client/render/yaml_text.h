#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Functions that write values as YAML with the same meaning in YAML 1.1 and 1.2. A text is written in double quotes
// unless every reader would read it as a text; so "no", "1e3", "0x1", "1:20", "~" and "2026-01-31" are quoted. A number
// has the form that YAML 1.1 requires: 1.0e-05, not 1e-05.
namespace ampd::client {

// A YAML value: a scalar as it is to be printed, a list, or a mapping, whose fields are printed in this order.
struct YamlValue {
  struct Field;
  using List = std::vector<YamlValue>;
  using Mapping = std::vector<Field>;
  std::variant<std::string, List, Mapping> value;
};

struct YamlValue::Field {
  std::string name;
  YamlValue value;
};

YamlValue YamlTextOf(std::string_view text);
YamlValue YamlNumberOf(int64_t number);
YamlValue YamlNumberOf(uint64_t number);
YamlValue YamlNumberOf(double number);
YamlValue YamlNumberOf(float number);
YamlValue YamlFlagOf(bool flag);

// Returns the message's fields that are set, with names in snake_case as in a job file. A 64-bit number is a number; a
// time or a duration is a text as in JSON ("2026-01-31T23:59:59Z", "90s"); an enum value is its name.
YamlValue YamlOf(const google::protobuf::Message& message);

// Returns the name in snake_case: "sizeBytes" becomes "size_bytes".
std::string SnakeCase(std::string_view name);

// Writes the value as a YAML document in block style, with a line break at its end.
std::string WriteYaml(const YamlValue& value);

}  // namespace ampd::client
