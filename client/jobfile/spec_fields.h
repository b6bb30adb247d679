#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

// The proto's fields and enum values under the names that people write.
namespace ampd::client {

// The name in a job file: the proto name, or the JSON name where the proto chose one (LossScale.static).
std::string FieldName(const google::protobuf::FieldDescriptor& field);

// By either name; null if there is none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& message, std::string_view name);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);

// Where below `message` a field of this name is, "optimizer.adamw.learning_rate", in the order of the proto; at most
// `most` of them. Lists are passed over.
std::vector<std::string> PathsTo(const google::protobuf::Descriptor& message, std::string_view name, size_t most);

// The values that may be written: all but the unspecified one.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// What a value of the field is, in words: "a whole number", "true or false", "a mapping (CosineSchedule)".
std::string TypeWords(const google::protobuf::FieldDescriptor& field);

}  // namespace ampd::client
