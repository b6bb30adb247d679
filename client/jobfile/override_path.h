#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

// The path of an override, such as "precision.module_rules[0].match".
namespace ampd::client {

// One word of a path: "module_rules[0]".
struct PathStep {
  std::string name;
  std::optional<size_t> index = {};
};

// Why a text is no path, as the end of a sentence that begins with the path, and the path that was probably meant.
struct PathRefusal {
  std::string message;
  std::string nearest = {};
};

// Explains a path to a label whose key has a dot, such as "labels.exp.id". `value` is the label's value in the
// override. Returns nothing for any other path.
std::optional<PathRefusal> ExplainDottedLabel(const std::string& path, const std::string& value);

// Reads a path to a field of a message of `type`. Returns nothing if it is a path, and then `steps` has its words.
std::optional<PathRefusal> ReadPath(const std::string& path, const google::protobuf::Descriptor& type,
                                    std::vector<PathStep>* steps);

// Returns the path with an index in place of its word at `at`, which is a number: "model.mlp.hidden[0]" for
// "model.mlp.hidden.0".
std::string WithIndex(const std::vector<PathStep>& steps, size_t at);

// Returns the type of the field `name` of a message of `type`; null if `type` is null or has no such message field.
const google::protobuf::Descriptor* TypeOfField(const google::protobuf::Descriptor* type, const std::string& name);

// Whether the field `name` of the message is a list.
bool IsList(const google::protobuf::Descriptor* type, const std::string& name);

// Whether the word has only digits.
bool IsNumber(const std::string& word);

}  // namespace ampd::client
