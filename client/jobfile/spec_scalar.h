#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

namespace ampd::client {

// Why a text is not a valid value. `message` continues a sentence after the field's path: "must be a whole number, not
// 'x'".
struct ScalarRefusal {
  std::string message;
  std::string nearest;
  std::vector<std::string> allowed;
};

// Sets (or, if repeated, adds) the scalar, enum or duration field from the text that a person wrote. 1e3 is a whole
// number, an enum value is written by its name, and a duration has a unit. Rejects numbers that are not finite or out
// of the type's range.
std::optional<ScalarRefusal> SetScalar(const std::string& text, const google::protobuf::FieldDescriptor& field,
                                       google::protobuf::Message* message);

}  // namespace ampd::client
