#include "client/commands/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/units.h"
#include "client/jobfile/foreign_names.h"

namespace ampd::client {
namespace {

// Checks for a whole number of at least `min`. Accepts numbers that are too large, which the parser rejects later: only
// it knows the maximum of the number's type (client/cli/command_tree.cc).
std::string CheckAtLeast(int64_t min, const std::string& text) {
  int64_t number = 0;
  const bool is_too_large = !TooLarge(text, std::numeric_limits<int64_t>::max()).empty();
  return is_too_large || (absl::SimpleAtoi(text, &number) && number >= min)
             ? ""
             : absl::StrCat("'", text, "' is not a whole number of at least ", min);
}

}  // namespace

std::string MeantWord(const std::string& text, const std::vector<std::string>& words) {
  const std::string nearest = NearestWord(text, words);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

absl::Status WithMeantName(const absl::Status& status, const std::string& text, const std::vector<std::string>& names) {
  const std::string nearest = Nearest(text, names);
  if (!absl::IsNotFound(status) || nearest.empty()) {
    return status;
  }
  absl::Status meant(status.code(), absl::StrCat(status.message(), "; did you mean '", nearest, "'?"));
  status.ForEachPayload([&meant](absl::string_view url, const absl::Cord& payload) { meant.SetPayload(url, payload); });
  return meant;
}

std::string CheckUtf8(const std::string& text) {
  const auto invalid = FirstInvalidUtf8(text);
  return invalid.has_value() ? NotUtf8(text, *invalid) : "";
}

std::string TimeOfUnix(const std::string& text) {
  const std::string digits = text.substr(text.starts_with('@') ? 1 : 0);  // date(1) writes @1700000000.
  int64_t number = 0;
  if (digits.size() < 9 || digits.size() > 16 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &number)) {
    return "";
  }
  const int64_t per_second = digits.size() > 14 ? 1'000'000 : digits.size() > 11 ? 1000 : 1;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(number / per_second), absl::UTCTimeZone());
}

std::string TooLarge(const std::string& text, int64_t max) {
  const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  int64_t number = 0;
  return is_number && (!absl::SimpleAtoi(text, &number) || number > max)
             ? absl::StrCat("'", text, "' is too large; the maximum is ", max)
             : "";
}

std::string CheckCount(const std::string& text) { return CheckAtLeast(0, text); }

std::string CheckPositiveCount(const std::string& text) { return CheckAtLeast(1, text); }

Check InRange(int64_t min, int64_t max) {
  return [min, max](const std::string& text) {
    int64_t number = 0;
    return absl::SimpleAtoi(text, &number) && number >= min && number <= max
               ? std::string()
               : absl::StrCat("'", text, "' is not a whole number from ", min, " to ", max);
  };
}

std::string CheckPositive(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0
             ? ""
             : absl::StrCat("'", text, "' is not a number above 0");
}

std::string CheckInterval(const std::string& text) {
  constexpr absl::Duration kLeast = absl::Milliseconds(50);
  return ParseDuration(text).value_or(kLeast) >= kLeast
             ? ""
             : absl::StrCat("'", text, "' is not a duration of at least ", absl::FormatDuration(kLeast));
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "the value must not be empty" : ""; }

Check OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string()
                 : absl::StrCat("'", text, "' is not one of ", absl::StrJoin(words, ", "), MeantWord(text, words));
  };
}

}  // namespace ampd::client
