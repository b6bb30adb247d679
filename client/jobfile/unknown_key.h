#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

#include "base/yaml/yaml_tree.h"
#include "client/jobfile/unknown_field.h"

// What stands at an unknown key of a job file and around it, and how to write the field that was meant.
namespace ampd::client {

// Returns the key in quotes, and shortened.
std::string QuotedKey(const std::string& key);

// Returns the field as the user would write it: in an override the path itself, in a file nested mappings. An empty
// value is shown as "...".
std::string Written(const std::string& path, bool is_override, const std::string& value = "");

// The assignment in a key such as "steps:3", "steps=3" or "steps 3", which YAML takes for a name without a value.
struct KeyedValue {
  const google::protobuf::FieldDescriptor* field = nullptr;  // null: the key is no such assignment
  std::string value = {};
};

// Returns the assignment that the unknown key is.
KeyedValue KeyedValueOf(const UnknownField& unknown);

// Returns the choice that the key's value names, such as "adamw" in "optimizer: {name: adamw}"; empty if it names none.
std::string ChoiceIn(const UnknownField& unknown);

// The text of the key's value; empty if it has none. In "fp16: {enabled: false}" it is that of the switch.
std::string ValueText(const UnknownField& unknown);

// Returns the mapping of the file in which the key stands; null if it is an item of a list.
const YamlNode* SectionOf(const UnknownField& unknown);

// Returns the choice that the section of the file has made, such as mlp in "model: {type: mlp}"; null if it has made
// none.
const google::protobuf::FieldDescriptor* ChoiceOfSection(const UnknownField& unknown);

}  // namespace ampd::client
