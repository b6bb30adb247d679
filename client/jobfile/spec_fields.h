#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>
#include <vector>

#include "client/render/field_name.h"

// Names of the proto's fields and enum values as people write them.
namespace ampd::client {

// Returns the text's letters and digits, in lower case.
std::string LettersOf(std::string_view text);

// Finds a field of `message` by its proto name or its JSON name. Returns null if there is none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor& message, std::string_view name);

std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);

// Returns the field of `message` whose name has the same letters and digits as `name`, in any case and with any
// separators: "data" for "Data". Null if there is none.
const google::protobuf::FieldDescriptor* FieldOfSameLetters(const google::protobuf::Descriptor& message,
                                                            std::string_view name);

// Returns the names that a job file has for the models of ampd itself, such as "lenet".
std::vector<std::string> ZooModelNames();

// Searches `message` and the messages in it for fields with this name. Returns their paths, such as
// "optimizer.adamw.learning_rate", in the proto's order and at most `most` of them. Does not search inside lists.
std::vector<std::string> PathsTo(const google::protobuf::Descriptor& message, std::string_view name, size_t most);

// Returns the names of the enumeration's values that a job file may use: all except the name of the unspecified value.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// Returns the paths of the fields of `message`, and of the messages in it, that have the same letters and digits as
// `word`, in any case and with any separators: "train.steps" for "trainSteps", "train/steps" or "TRAIN.STEPS".
std::vector<std::string> PathsLike(const google::protobuf::Descriptor& message, std::string_view word);

// Whether every job file must set the field, if it sets the section around it.
bool IsRequired(const google::protobuf::FieldDescriptor& field);

// Returns whether the field holds a number of bytes, which may be written with a unit (4GiB). The names of these fields
// end in "_bytes".
bool IsByteCount(const google::protobuf::FieldDescriptor& field);

// Describes the field's type in words: "a whole number", "true or false", "a mapping of fields", "one of CPU, GPU".
std::string TypeWords(const google::protobuf::FieldDescriptor& field);

// Returns the preset of precision policies that was probably meant by `name`: "bf16" for "BF16" or "bfloat16". Empty if
// there is none.
std::string NearestPreset(const std::string& name);

}  // namespace ampd::client
