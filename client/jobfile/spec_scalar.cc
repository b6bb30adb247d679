#include "client/jobfile/spec_scalar.h"

#include <google/protobuf/duration.pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml/look_alike.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/foreign_names.h"
#include "client/jobfile/number_text.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Quoted(const std::string& text) { return absl::StrCat("'", Shortened(text, kMaxShownText), "'"); }

ScalarRefusal NotA(const std::string& words, const std::string& text) {
  return {absl::StrCat("must be ", words, ", not ", Quoted(text)), "", {}};
}

// The field to write. If the field is repeated, the value is appended to it. Otherwise the value replaces the field's.
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

// Returns the refusal of a number that the field's type cannot hold. It names the limits that the server has for the
// field, if they are known, and otherwise `type_limit`, the type's own.
template <typename T>
ScalarRefusal OutOfRange(const std::string& text, const FieldDescriptor& field, T type_limit) {
  const FieldLimits* const limits = LimitsOf(field);
  const bool is_known = limits != nullptr && limits->limits[0] != '\0';
  return {absl::StrCat("must be ",
                       is_known ? std::string(limits->limits)
                                : absl::StrCat(type_limit > 0 ? "at most " : "at least ", type_limit),
                       ", not ", Quoted(text)),
          "",
          {}};
}

// Returns the end of a message about a text that is no number: "; allowed is -1000 to 1000". Empty if the limits of the
// field are unknown.
std::string AllowedBy(const FieldDescriptor& field) {
  const FieldLimits* const limits = LimitsOf(field);
  return limits == nullptr || limits->limits[0] == '\0' ? "" : absl::StrCat("; allowed is ", limits->limits);
}

// Whether the text is a whole number in plain decimal digits, such as -12.
bool IsPlainWhole(std::string_view text) {
  text.remove_prefix(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// Refuses a whole number that begins with a zero: YAML 1.1 takes 010 for 8, and YAML 1.2 for 10.
std::optional<ScalarRefusal> RefuseLeadingZero(const std::string& text) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::string digits = text.substr(has_sign ? 1 : 0);
  if (!IsPlainWhole(digits) || digits.size() < 2 || digits.front() != '0') {
    return std::nullopt;
  }
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  const std::string sign = text.starts_with('-') ? "-" : "";
  int64_t octal = 0;
  for (const char c : digits.substr(first, 20)) {
    octal = c > '7' ? -1 : octal * 8 + (c - '0');
    if (octal < 0) {
      break;
    }
  }
  return ScalarRefusal{
      absl::StrCat("is ", Quoted(text), "; write ", sign, Shortened(digits.substr(first), kMaxShownText),
                   octal < 8 ? "" : absl::StrCat(", or ", sign, octal, " if octal is meant")),
      "",
      {}};
}

// Returns the text as a number is written: with ASCII in place of characters that only look like it, and without
// separators between groups of digits. Empty if the text has no such characters and no separators.
std::string PlainNumber(const std::string& text) {
  const std::string ascii(absl::StripAsciiWhitespace(WithPlainCharacters(text)));
  const std::string plain = WithoutSeparators(ascii);
  return !plain.empty() ? plain : ascii != text ? ascii : "";
}

template <typename T>
std::optional<ScalarRefusal> ParseWhole(const std::string& text, const FieldDescriptor& field, T* value) {
  using Limits = std::numeric_limits<T>;
  if (absl::SimpleAtoi(text, value)) {
    return std::nullopt;
  }
  if (IsPlainWhole(text)) {
    return OutOfRange<T>(text, field, text.starts_with('-') ? Limits::lowest() : Limits::max());
  }
  double number = 0;
  const bool is_number = absl::SimpleAtod(text, &number) && std::isfinite(number);
  const bool is_hexadecimal = absl::StrContains(text, "x") || absl::StrContains(text, "X");
  const std::optional<std::string> digits = is_hexadecimal ? std::nullopt : ExactWhole(text);
  const bool is_whole = is_hexadecimal ? number == std::floor(number) : digits.has_value();
  if (!is_number || (!is_whole && std::abs(number) < 1e40)) {
    ScalarRefusal refusal = NotA(TypeWords(field), text);
    for (const std::string& guess : {WithoutSuffix(text), PlainNumber(text)}) {
      refusal.nearest = absl::SimpleAtoi(guess, value) ? guess : refusal.nearest;
    }
    const bool is_period = field.name() == "every_steps";
    if (ZeroMeansAtTheEnd(field) &&
        (MeansNo(text) || absl::EqualsIgnoreCase(text, "never") || absl::EqualsIgnoreCase(text, "none"))) {
      const std::string none = HowToHaveNone(field);
      absl::StrAppend(&refusal.message, "; 0 means only at the end", none);
      refusal.nearest = none.empty() ? "0" : "";
    } else if (refusal.nearest.empty() && is_period && !text.empty() && absl::ascii_isalpha(text.back())) {
      absl::StrAppend(&refusal.message, "; it counts steps, not time or epochs");
    } else if (refusal.nearest.empty() && !IsByteCount(field) && text.find_first_of(" ,;=#$") == std::string::npos) {
      absl::StrAppend(&refusal.message, AllowedBy(field));
    }
    return refusal;
  }
  // Below 2^53 a double holds every whole number exactly. Other readers of YAML take 1e15 and 15.0 for doubles, so
  // larger numbers must be plain digits.
  constexpr double kExact = 9007199254740992.0;
  if (number < static_cast<double>(Limits::lowest()) || number > static_cast<double>(Limits::max())) {
    return OutOfRange<T>(text, field, number < 0 ? Limits::lowest() : Limits::max());
  }
  if (std::abs(number) >= kExact) {
    return ScalarRefusal{absl::StrCat("is too large to be written as ", Quoted(text), "; write its digits only"),
                         digits.value_or(""),
                         {}};
  }
  *value = static_cast<T>(number);
  return std::nullopt;
}

// Parses a number of bytes, with or without a unit, and stores it in the field.
std::optional<ScalarRefusal> PutByteCount(const std::string& text, const Target& target) {
  int64_t value = 0;
  if (const std::optional<int64_t> bytes = ParseByteCount(text); bytes.has_value()) {
    value = *bytes;
  } else if (const std::string why = WhyTooManyBytes(text); !why.empty()) {
    return ScalarRefusal{absl::StrCat("is ", Quoted(text), ", which ", why), "", {}};
  } else if (auto refusal = ParseWhole<int64_t>(text, *target.field, &value); refusal.has_value()) {
    const std::string guess = GuessByteCount(text);
    refusal->nearest = guess.empty() ? refusal->nearest : guess;
    return refusal;
  }
  AMPD_PUT(target, Int64, value);
  return std::nullopt;
}

// Refuses a text that is not a number. Suggests a number without separators, and with a '.' in place of a decimal
// comma.
ScalarRefusal NotANumber(const std::string& text) {
  const auto if_number = [](const std::string& guess) {
    double value = 0;
    return absl::SimpleAtod(guess, &value) ? guess : "";
  };
  const std::string plain = if_number(PlainNumber(text));
  const bool has_comma = std::count(text.begin(), text.end(), ',') == 1;
  const std::string decimal = has_comma ? if_number(absl::StrReplaceAll(text, {{",", "."}})) : "";
  if (!plain.empty() && !decimal.empty()) {
    return {absl::StrCat("is ", Quoted(text), "; write ", plain, ", or ", decimal, " if the ',' is a decimal comma"),
            "",
            {}};
  }
  ScalarRefusal refusal = NotA("a number", text);
  refusal.nearest = !plain.empty() ? plain : !decimal.empty() ? decimal : if_number(WithoutSuffix(text));
  return refusal;
}

std::optional<ScalarRefusal> PutNumber(const std::string& text, const Target& target) {
  double value = 0;
  if (text == ".inf" || text == "-.inf" || text == ".nan") {
    return NotA("a finite number", text);
  }
  if (!absl::SimpleAtod(text, &value)) {
    return NotANumber(text);
  }
  if (!std::isfinite(value)) {
    return NotA("a finite number", text);
  }
  if (value == 0 && text.substr(0, text.find_first_of("eEpP")).find_first_of("123456789") != std::string::npos) {
    return ScalarRefusal{absl::StrCat("is ", Quoted(text), ", which is too close to 0 to be told from it"), "", {}};
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
    constexpr std::string_view kYes[] = {"yes", "on", "y", "t", "true", "1", "enabled", "enable"};
    constexpr std::string_view kNo[] = {"no", "off", "n", "f", "false", "0", "disabled", "disable"};
    const bool yes = std::find(std::begin(kYes), std::end(kYes), lower) != std::end(kYes);
    const bool no = std::find(std::begin(kNo), std::end(kNo), lower) != std::end(kNo);
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
    std::string nearest = NearestWord(text, names);
    return ScalarRefusal{absl::StrCat("must be one of the allowed words, not ", Quoted(text)), std::move(nearest),
                         std::move(names)};
  }
  AMPD_PUT(target, Enum, value);
  return std::nullopt;
}

std::optional<ScalarRefusal> PutDuration(const std::string& text, const Target& target) {
  std::optional<absl::Duration> parsed = ParseDuration(text);
  if (const std::string why = WhyTooLong(text); !why.empty()) {
    return ScalarRefusal{absl::StrCat("is ", Quoted(text), ", which ", why), "", {}};
  }
  if (!parsed.has_value()) {
    constexpr std::string_view kNoLimit[] = {"never",    "none",     "no",  "off",  "false", "unlimited",
                                             "infinite", "infinity", "inf", ".inf", "-1"};
    const std::string lower = absl::AsciiStrToLower(text);
    const bool is_no_limit = std::find(std::begin(kNoLimit), std::end(kNoLimit), lower) != std::end(kNoLimit);
    ScalarRefusal refusal = NotA(kDurationWords, text);
    absl::StrAppend(&refusal.message, is_no_limit ? "; for no limit, leave the field out" : "");
    refusal.nearest = GuessDuration(text);
    return refusal;
  }
  Message* message = target.field->is_repeated() ? target.reflection->AddMessage(target.message, target.field)
                                                 : target.reflection->MutableMessage(target.message, target.field);
  auto* proto = static_cast<google::protobuf::Duration*>(message);
  proto->set_seconds(absl::IDivDuration(*parsed, absl::Seconds(1), &*parsed));
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(*parsed)));
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
    return ScalarRefusal{absl::StrCat("has no value; it must be ", TypeWords(field)), "", {}};
  }
  const Target target{message, &field, message->GetReflection()};
  const bool is_whole =
      field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
      field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
  if (auto refusal = is_whole ? RefuseLeadingZero(text) : std::nullopt; refusal.has_value()) {
    return refusal;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AMPD_PUT_WHOLE(Int32, int32_t)
    case FieldDescriptor::CPPTYPE_INT64:
      if (IsByteCount(field)) {
        return PutByteCount(text, target);
      }
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
