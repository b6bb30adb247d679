#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ampd::client {

// An error message quotes at most this many bytes of a text from a job file.
inline constexpr size_t kMaxShownText = 60;

// Why a text is not a valid value of a field. `message` completes a sentence that begins with the field's path: "must
// be a whole number, not 'x'".
struct ScalarRefusal {
  std::string message;
  std::string nearest;
  std::vector<std::string> allowed;
};

// Sets the field of `message` from `text`, the value that a person wrote. Adds a value if the field is repeated. The
// field is a scalar, an enum or a duration. 1e3 is a whole number, an enum value is written by its name, and a
// duration has a unit. Returns the refusal if the text is not valid, for example a number that is not finite or
// outside the type's range.
std::optional<ScalarRefusal> SetScalar(const std::string& text, const google::protobuf::FieldDescriptor& field,
                                       google::protobuf::Message* message);

}  // namespace ampd::client
