// Implements the functions of FlagSet that add a flag with a certain kind of value, such as AddText and AddNumber.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/flags/flag_set.h"
#include "base/nearest.h"
#include "base/units.h"

namespace ampd {
namespace {

absl::Status Malformed(const std::string& message) { return absl::InvalidArgumentError(message); }

absl::StatusOr<absl::Duration> DurationIn(const std::string& text, absl::Duration at_least) {
  const std::optional<absl::Duration> parsed = ParseDuration(text);
  if (!parsed.has_value()) {
    return Malformed(NotADuration(text));
  }
  return *parsed < at_least ? absl::StatusOr<absl::Duration>(
                                  Malformed(absl::StrCat("'", text, "' is less than ", absl::FormatDuration(at_least))))
                            : *parsed;
}

absl::Status TakeSize(const std::string& text, std::optional<int64_t>* value) {
  *value = ParseByteCount(text);
  return value->has_value() ? absl::OkStatus() : Malformed(NotAByteCount(text));
}

}  // namespace

void FlagSet::AddText(const Flag& flag, std::string* value) {
  AddValue(flag, *value, [value](const std::string& text) {
    *value = text;
    return absl::OkStatus();
  });
}

void FlagSet::AddChoice(const Flag& flag, const std::vector<std::string>& choices, std::string* value) {
  AddValue(flag, *value, [value, choices](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      const std::string nearest = Nearest(text, choices);
      return Malformed(absl::StrCat("'", text, "' is not one of ", absl::StrJoin(choices, ", "),
                                    nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")));
    }
    *value = text;
    return absl::OkStatus();
  });
}

void FlagSet::AddNumber(const Flag& flag, int at_least, int at_most, int* value) {
  AddValue(flag, absl::StrCat(*value), [=](const std::string& text) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < at_least || number > at_most) {
      return Malformed(absl::StrCat("'", text, "' is not a whole number from ", at_least, " to ", at_most));
    }
    *value = number;
    return absl::OkStatus();
  });
}

void FlagSet::AddSeconds(const Flag& flag, absl::Duration* value) {
  AddValue(flag, absl::FormatDuration(*value), [value](const std::string& text) {
    constexpr absl::Duration kLongest = absl::Seconds(1'000'000'000);
    double number = 0;
    const std::optional<absl::Duration> duration =
        absl::SimpleAtod(text, &number) ? absl::Seconds(number) : ParseDuration(text);
    if (!duration.has_value() || !(*duration >= absl::ZeroDuration() && *duration <= kLongest)) {
      return Malformed(absl::StrCat("'", text, "' is not a duration such as 20s or 1m"));
    }
    *value = *duration;
    return absl::OkStatus();
  });
}

void FlagSet::AddDuration(const Flag& flag, absl::Duration at_least, absl::Duration* value) {
  AddValue(flag, absl::FormatDuration(*value), [=](const std::string& text) {
    const absl::StatusOr<absl::Duration> duration = DurationIn(text, at_least);
    *value = duration.value_or(*value);
    return duration.status();
  });
}

void FlagSet::AddAge(const Flag& flag, absl::Duration* value) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);
  Flag with_words = flag;
  with_words.help += " (0 = for ever)";
  AddValue(with_words, absl::FormatDuration(*value), [=](const std::string& text) {
    const absl::StatusOr<absl::Duration> duration = DurationIn(text, absl::ZeroDuration());
    if (duration.ok() && *duration > kLongest) {
      return Malformed(absl::StrCat("'", text, "' is more than 100 years; 0 means for ever"));
    }
    *value = duration.value_or(*value);
    return duration.status();
  });
}

void FlagSet::AddSize(const Flag& flag, int64_t* value) {
  AddValue(flag, ByteCountText(*value), [value](const std::string& text) {
    std::optional<int64_t> bytes;
    const absl::Status taken = TakeSize(text, &bytes);
    *value = bytes.value_or(*value);
    return taken;
  });
}

void FlagSet::AddSize(const Flag& flag, std::optional<int64_t>* value) {
  AddValue(flag, "", [value](const std::string& text) { return TakeSize(text, value); });
}

}  // namespace ampd
