#include "client/jobfile/spec_scalar.h"

#include <google/protobuf/duration.pb.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "client/jobfile/nearest.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxShownText = 60;

std::string Quoted(const std::string& text) { return absl::StrCat("'", Shortened(text, kMaxShownText), "'"); }

ScalarRefusal NotA(const std::string& words, const std::string& text) {
  return {absl::StrCat("must be ", words, ", not ", Quoted(text)), "", {}};
}

// The field to write. A repeated field is written by Add*, another by Set*.
struct Target {
  Message* message;
  const FieldDescriptor* field;
  const Reflection* reflection;
};

#define AMPD_PUT(target, Type, value)                                          \
  do {                                                                         \
    if ((target).field->is_repeated()) {                                       \
      (target).reflection->Add##Type((target).message, (target).field, value); \
    } else {                                                                   \
      (target).reflection->Set##Type((target).message, (target).field, value); \
    }                                                                          \
  } while (false)

template <typename T>
std::optional<ScalarRefusal> ParseWhole(const std::string& text, const FieldDescriptor& field, T* value) {
  if (absl::SimpleAtoi(text, value)) {
    return std::nullopt;
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || number != std::floor(number)) {
    return NotA(TypeWords(field), text);
  }
  // The largest whole number that may be written as 1e15 or 15.0: up to 2^53 a double holds every whole number
  // exactly. Larger numbers must be plain digits.
  constexpr double kExact = 9007199254740992.0;
  const double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
  const double highest = static_cast<double>(std::numeric_limits<T>::max());
  if (number < lowest || number > highest || std::abs(number) > kExact) {
    return ScalarRefusal{absl::StrCat("must be from ", std::numeric_limits<T>::lowest(), " to ",
                                      std::numeric_limits<T>::max(), ", not ", Quoted(text)),
                         "",
                         {}};
  }
  *value = static_cast<T>(number);
  return std::nullopt;
}

std::optional<ScalarRefusal> PutNumber(const std::string& text, const Target& target) {
  double value = 0;
  if (text == ".inf" || text == "-.inf" || text == ".nan") {
    return NotA("a finite number", text);
  }
  if (!absl::SimpleAtod(text, &value)) {
    return NotA("a number", text);
  }
  if (!std::isfinite(value)) {
    return NotA("a finite number", text);
  }
  if (target.field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    AMPD_PUT(target, Float, static_cast<float>(value));
  } else {
    AMPD_PUT(target, Double, value);
  }
  return std::nullopt;
}

std::optional<ScalarRefusal> PutBool(const std::string& text, const Target& target) {
  if (text != "true" && text != "false") {
    ScalarRefusal refusal = NotA("true or false", text);
    const std::string lower = absl::AsciiStrToLower(text);
    const bool yes = lower == "yes" || lower == "on" || lower == "y" || lower == "true" || lower == "1";
    const bool no = lower == "no" || lower == "off" || lower == "n" || lower == "false" || lower == "0";
    refusal.nearest = yes ? "true" : no ? "false" : "";
    return refusal;
  }
  AMPD_PUT(target, Bool, text == "true");
  return std::nullopt;
}

std::optional<ScalarRefusal> PutEnum(const std::string& text, const Target& target) {
  const EnumValueDescriptor* value = target.field->enum_type()->FindValueByName(text);
  if (value == nullptr || text.ends_with("_UNSPECIFIED")) {
    std::vector<std::string> names = EnumNames(*target.field->enum_type());
    return ScalarRefusal{
        absl::StrCat("is not ", Quoted(text), ": there is no such ", target.field->enum_type()->name()),
        Nearest(text, names), names};
  }
  AMPD_PUT(target, Enum, value);
  return std::nullopt;
}

std::optional<ScalarRefusal> PutDuration(const std::string& text, const Target& target) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration == absl::InfiniteDuration() ||
      duration == -absl::InfiniteDuration()) {
    double number = 0;
    ScalarRefusal refusal = NotA("a duration such as 90s or 1h30m", text);
    if (absl::SimpleAtod(text, &number)) {
      refusal.nearest = text + "s";
    }
    return refusal;
  }
  Message* message = target.field->is_repeated() ? target.reflection->AddMessage(target.message, target.field)
                                                 : target.reflection->MutableMessage(target.message, target.field);
  auto* proto = static_cast<google::protobuf::Duration*>(message);
  proto->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return std::nullopt;
}

#define AMPD_PUT_WHOLE(Type, CppType)                              \
  {                                                                \
    CppType value = 0;                                             \
    if (auto refusal = ParseWhole<CppType>(text, field, &value)) { \
      return refusal;                                              \
    }                                                              \
    AMPD_PUT(target, Type, value);                                 \
    return std::nullopt;                                           \
  }

}  // namespace

std::optional<ScalarRefusal> SetScalar(const std::string& text, const FieldDescriptor& field, Message* message) {
  if (text.empty() && field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return ScalarRefusal{absl::StrCat("has no value; it is ", TypeWords(field)), "", {}};
  }
  const Target target{message, &field, message->GetReflection()};
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AMPD_PUT_WHOLE(Int32, int32_t)
    case FieldDescriptor::CPPTYPE_INT64:
      AMPD_PUT_WHOLE(Int64, int64_t)
    case FieldDescriptor::CPPTYPE_UINT32:
      AMPD_PUT_WHOLE(UInt32, uint32_t)
    case FieldDescriptor::CPPTYPE_UINT64:
      AMPD_PUT_WHOLE(UInt64, uint64_t)
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return PutNumber(text, target);
    case FieldDescriptor::CPPTYPE_BOOL:
      return PutBool(text, target);
    case FieldDescriptor::CPPTYPE_ENUM:
      return PutEnum(text, target);
    case FieldDescriptor::CPPTYPE_STRING:
      AMPD_PUT(target, String, text);
      return std::nullopt;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return PutDuration(text, target);
  }
  return NotA(TypeWords(field), text);
}

}  // namespace ampd::client
