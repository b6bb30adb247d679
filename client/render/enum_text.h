#pragma once

#include <google/protobuf/generated_enum_reflection.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ampd::client {

// Returns the name of an enumeration's value. If only a newer server knows the value, returns its number, as in JSON.
template <typename Enum>
std::string EnumText(Enum value) {
  const google::protobuf::EnumValueDescriptor* const known =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known == nullptr ? absl::StrCat(static_cast<int>(value)) : known->name();
}

}  // namespace ampd::client
