#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "base/yaml/yaml_tree.h"

namespace ampd::client {

// A key that is no field of the section in which it stands.
struct UnknownField {
  std::string key;
  std::string section;                        // path of the section; empty: the top of the job file
  const google::protobuf::Descriptor* type;   // type of the section
  const google::protobuf::Descriptor* whole;  // type of the whole job file
  const YamlNode* root;                       // the whole job file, which shows what it has chosen
  bool is_override = false;                   // whether a --set has the key, in its path or in its value
  const YamlNode* value = nullptr;            // the value of the key; null: unknown
};

// Why the key is no field, and which one was probably meant. The members are those of Problem.
struct UnknownFieldAnswer {
  std::string message;
  std::string nearest = {};
  std::vector<std::string> allowed = {};
};

UnknownFieldAnswer ExplainUnknownField(const UnknownField& unknown);

}  // namespace ampd::client
