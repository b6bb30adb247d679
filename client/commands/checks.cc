#include "client/commands/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

// Returns the end of an error message that suggests the number in a text with a comma or a currency sign: "; did you
// mean '2.50'?" for "$2,50". Empty if there is none.
std::string MeantNumber(const std::string& text) {
  const size_t begin = text.find_first_of("0123456789.,");
  const std::string plain = begin == std::string::npos ? "" : absl::StrReplaceAll(text.substr(begin), {{",", "."}});
  const size_t end = std::min(plain.find_first_not_of("0123456789."), plain.size());
  const std::string number = plain.substr(0, end);
  double value = 0;
  const bool is_alone = std::none_of(text.begin(), text.end(), [](char c) {  // no unit, sign or calculation
    return absl::ascii_isalpha(c) || absl::StrContains("-^*/%", std::string(1, c));
  });
  return number != text && is_alone && absl::SimpleAtod(number, &value) && value > 0
             ? absl::StrCat("; did you mean '", number, "'?")
             : "";
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

Check NotEndless(const std::string& option) {
  return [option](const std::string& text) {
    constexpr std::string_view kWords[] = {"never",    "none",     "forever", "unlimited",
                                           "infinite", "infinity", "inf",     "no"};
    const bool is_endless =
        std::find(std::begin(kWords), std::end(kWords), absl::AsciiStrToLower(text)) != std::end(kWords);
    return is_endless ? absl::StrCat("'", text, "' is not a duration; for no limit, leave ", option, " out") : "";
  };
}

std::string CheckPositive(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0
             ? ""
             : absl::StrCat("'", text, "' is not a number above 0", MeantNumber(text));
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
                 : absl::StrCat("'", text, "' is not one of ", absl::StrJoin(words, ", "),
                                text.find(',') == std::string::npos ? MeantWord(text, words) : "; give only one");
  };
}

}  // namespace ampd::client
