#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace ampd::client {

// Returns the field's name in a job file and in YAML: the proto name, or the JSON name if the proto sets one
// (LossScale.static).
std::string FieldName(const google::protobuf::FieldDescriptor& field);

}  // namespace ampd::client
