#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Writes values as YAML that readers of YAML 1.1 and 1.2 understand alike. A text is written in double quotes unless
// every reader takes it for a text: "no", "1e3", "0x1", "1:20", "~" and "2026-01-31" are quoted. A number has the form
// that YAML 1.1 demands: 1.0e-05, not 1e-05.
namespace ampd::client {

// A value of YAML: a scalar as it is written, a list, or a mapping in its order.
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

// Returns the fields of the message that are set, in snake_case, as a job file names them. A 64-bit number is a number;
// a time and a duration are texts as in JSON ("2026-01-31T23:59:59Z", "90s"); an enum value is its name.
YamlValue YamlOf(const google::protobuf::Message& message);

// Returns the name in snake_case: "sizeBytes" becomes "size_bytes".
std::string SnakeCase(std::string_view name);

// Writes the value as a YAML document in block style, with a line break at its end.
std::string WriteYaml(const YamlValue& value);

}  // namespace ampd::client
