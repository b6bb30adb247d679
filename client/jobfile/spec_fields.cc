#include "client/jobfile/spec_fields.h"

#include <algorithm>

#include "base/units.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

void FindPaths(const Descriptor& message, std::string_view name, const std::string& above, size_t most,
               std::vector<std::string>* paths) {
  constexpr int kDeepest = 4;  // most words of a path; ends the search also in messages that contain themselves
  for (int i = 0; i < message.field_count() && paths->size() < most; ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = above + FieldName(field);
    if (FieldName(field) == name) {
      paths->push_back(path);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated() &&
               std::count(path.begin(), path.end(), '.') + 1 < kDeepest) {
      FindPaths(*field.message_type(), name, path + ".", most, paths);
    }
  }
}

}  // namespace

const FieldDescriptor* FindField(const Descriptor& message, std::string_view name) {
  const std::string wanted(name);
  if (const FieldDescriptor* field = message.FindFieldByName(wanted)) {
    return field;
  }
  for (int i = 0; i < message.field_count(); ++i) {
    if (message.field(i)->json_name() == wanted) {
      return message.field(i);
    }
  }
  return nullptr;
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) {
    names.push_back(FieldName(*message.field(i)));
  }
  return names;
}

std::vector<std::string> PathsTo(const Descriptor& message, std::string_view name, size_t most) {
  std::vector<std::string> paths;
  FindPaths(message, name, "", most, &paths);
  return paths;
}

std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (!type.value(i)->name().ends_with("_UNSPECIFIED")) {
      names.push_back(type.value(i)->name());
    }
  }
  return names;
}

bool IsByteCount(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 && field.name().ends_with("_bytes");
}

std::string TypeWords(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return IsByteCount(field) ? kByteCountWords : "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number of at least 0";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "one of " + field.enum_type()->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return field.message_type()->full_name() == "google.protobuf.Duration"
             ? kDurationWords
             : "a mapping (" + field.message_type()->name() + ")";
}

}  // namespace ampd::client
