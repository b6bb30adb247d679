#include "client/render/field_name.h"

#include <cctype>

namespace ampd::client {
namespace {

std::string CamelCase(const std::string& name) {
  std::string camel;
  bool upper = false;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      camel += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return camel;
}

}  // namespace

std::string FieldName(const google::protobuf::FieldDescriptor& field) {
  return field.json_name() == CamelCase(field.name()) ? field.name() : field.json_name();
}

}  // namespace ampd::client
