#pragma once

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

namespace ampd::client {

// Why a text is no value of a field; `message` goes on after the field's path: "must be a whole number, not 'x'".
struct ScalarRefusal {
  std::string message;
  std::string nearest;
  std::vector<std::string> allowed;
};

// Sets (or, if repeated, adds) the scalar, enum or duration field from what a person wrote: 1e3 is a whole number, an
// enum goes by its name, a duration has a unit. Numbers out of the type's range and not finite are refused.
std::optional<ScalarRefusal> SetScalar(const std::string& text, const google::protobuf::FieldDescriptor& field,
                                       google::protobuf::Message* message);

}  // namespace ampd::client
