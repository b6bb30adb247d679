#include "client/jobfile/spec_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/nearest.h"
#include "base/units.h"
#include "client/jobfile/foreign_names.h"
#include "google/api/field_behavior.pb.h"
#include "precision/policy.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Visits the fields of `message` and of the messages in it, but not those in lists. `visit` gets each field with its
// path, and returns whether the search enters the field.
template <typename Visit>
void VisitFields(const Descriptor& message, const std::string& above, const Visit& visit) {
  constexpr int kDeepest = 4;  // maximum number of words in a path; also ends the search in recursive messages
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = above + FieldName(field);
    const bool enters = visit(field, path);
    if (enters && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated() &&
        std::count(path.begin(), path.end(), '.') + 1 < kDeepest) {
      VisitFields(*field.message_type(), path + ".", visit);
    }
  }
}

}  // namespace

std::string LettersOf(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      letters += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
  }
  return letters;
}

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

const FieldDescriptor* FieldOfSameLetters(const Descriptor& message, std::string_view name) {
  const std::string letters = LettersOf(name);
  for (int i = 0; i < message.field_count(); ++i) {
    if (LettersOf(FieldName(*message.field(i))) == letters) {
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

std::vector<std::string> ZooModelNames() {
  const google::protobuf::OneofDescriptor& kinds = *v1::ModelSpec::descriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i < kinds.field_count(); ++i) {
    names.push_back(kinds.field(i)->name());
  }
  std::erase(names, "exported");
  return names;
}

std::vector<std::string> PathsTo(const Descriptor& message, std::string_view name, size_t most) {
  std::vector<std::string> paths;
  VisitFields(message, "", [&](const FieldDescriptor& field, const std::string& path) {
    const bool is_found = FieldName(field) == name;
    if (is_found && paths.size() < most) {
      paths.push_back(path);
    }
    return !is_found;
  });
  return paths;
}

std::vector<std::string> PathsLike(const Descriptor& message, std::string_view word) {
  const std::string letters = LettersOf(word);
  std::vector<std::string> paths;
  VisitFields(message, "", [&](const FieldDescriptor& /*field*/, const std::string& path) {
    if (!letters.empty() && LettersOf(path) == letters) {
      paths.push_back(path);
    }
    return true;
  });
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

bool IsRequired(const FieldDescriptor& field) {
  const google::protobuf::FieldOptions& options = field.options();
  for (int i = 0; i < options.ExtensionSize(google::api::field_behavior); ++i) {
    if (options.GetExtension(google::api::field_behavior, i) == google::api::REQUIRED) {
      return true;
    }
  }
  return false;
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
      return absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return field.message_type()->full_name() == "google.protobuf.Duration" ? kDurationWords : "a mapping of fields";
}

std::string NearestPreset(const std::string& name) {
  const std::vector<std::string> presets = precision::PresetNames();
  const std::string usual = UsualFormat(name);
  if (std::find(presets.begin(), presets.end(), usual) != presets.end()) {
    return usual;
  }
  // If a preset copies a preset of another project, its name begins with that project's name: "apex-o1",
  // "keras-mixed-float16".
  const std::string own = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
  const auto copy = std::find_if(presets.begin(), presets.end(), [&own](const std::string& preset) {
    return !own.empty() && preset.ends_with("-" + own);
  });
  const bool is_own = std::find(presets.begin(), presets.end(), own) != presets.end();
  return copy != presets.end() && !is_own ? *copy : Nearest(own, presets);
}

}  // namespace ampd::client
