#include "base/units.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace ampd {
namespace {

constexpr size_t kMaxShownText = 60;

// The length of the unsigned decimal number at the beginning of `text`: "12" or "1.5"; 0 if there is none.
size_t NumberLength(std::string_view text) {
  size_t length = 0;
  size_t num_digits = 0;
  size_t num_points = 0;
  for (; length < text.size() && (absl::ascii_isdigit(text[length]) || text[length] == '.'); ++length) {
    (text[length] == '.' ? num_points : num_digits) += 1;
  }
  return num_digits > 0 && num_points <= 1 ? length : 0;
}

size_t UnitLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && absl::ascii_isalpha(text[length])) {
    ++length;
  }
  return length;
}

// Parses a number and its unit, such as "1.5" and "h".
std::optional<absl::Duration> ParsePart(std::string_view number, std::string_view unit) {
  const bool is_days = unit == "d";
  absl::Duration duration;
  if (unit.empty() ||
      !absl::ParseDuration(absl::StrCat(std::string(number), is_days ? "h" : std::string(unit)), &duration)) {
    return std::nullopt;
  }
  return is_days ? duration * 24 : duration;
}

std::optional<int64_t> BytesPerUnit(const std::string& lower_unit) {
  static constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"b", 1},
      {"kib", int64_t{1} << 10},
      {"mib", int64_t{1} << 20},
      {"gib", int64_t{1} << 30},
      {"tib", int64_t{1} << 40},
      {"pib", int64_t{1} << 50},
      {"kb", 1'000},
      {"mb", 1'000'000},
      {"gb", 1'000'000'000},
      {"tb", 1'000'000'000'000},
      {"pb", 1'000'000'000'000'000},
  };
  for (const auto& [name, bytes] : kUnits) {
    if (lower_unit == name) {
      return bytes;
    }
  }
  return std::nullopt;
}

std::string Refusal(std::string_view text, const std::string& too_large, const char* words, const std::string& guess) {
  const std::string why = too_large.empty() ? absl::StrCat("is not ", words) : too_large;
  return absl::StrCat("'", Shortened(text, kMaxShownText), "' ", why,
                      guess.empty() ? "" : absl::StrCat("; did you mean '", guess, "'?"));
}

constexpr absl::Duration kLongestDuration = absl::Seconds(315'576'000'000);

// Returns the sum of a duration's parts, such as "1h" and "30m". The sum may exceed kLongestDuration and may be
// infinite.
std::optional<absl::Duration> SumOfParts(std::string_view text) {
  if (text == "0") {
    return absl::ZeroDuration();
  }
  absl::Duration sum;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t number = NumberLength(rest);
    const size_t unit = UnitLength(rest.substr(number));
    const auto part = number == 0 ? std::nullopt : ParsePart(rest.substr(0, number), rest.substr(number, unit));
    if (!part.has_value()) {
      return std::nullopt;
    }
    sum += *part;
    rest.remove_prefix(number + unit);
  }
  return text.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace

std::optional<absl::Duration> ParseDuration(std::string_view text) {
  const std::optional<absl::Duration> sum = SumOfParts(text);
  return sum.has_value() && *sum <= kLongestDuration ? sum : std::nullopt;
}

std::string WhyTooLong(std::string_view text) {
  const std::optional<absl::Duration> sum = SumOfParts(text);
  return sum.has_value() && *sum > kLongestDuration ? "is longer than 10000 years" : "";
}

std::string WhyTooManyBytes(std::string_view text) {
  const size_t length = NumberLength(text);
  const std::string unit(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()).substr(length)));
  const std::optional<int64_t> per_unit = BytesPerUnit(unit.empty() ? "b" : absl::AsciiStrToLower(unit));
  double number = 0;
  const bool is_number = length > 0 && absl::SimpleAtod(std::string(text.substr(0, length)), &number);
  constexpr double kMost = 9223372036854775807.0;
  return is_number && per_unit.has_value() && number * static_cast<double>(*per_unit) >= kMost ? "is more than 8191PiB"
                                                                                               : "";
}

std::optional<int64_t> ParseByteCount(std::string_view text) {
  const size_t length = NumberLength(text);
  const std::string number(text.substr(0, length));
  std::string_view unit = text.substr(length);
  if (length == 0) {
    return std::nullopt;
  }
  if (unit.empty()) {
    int64_t bytes = 0;
    return absl::SimpleAtoi(number, &bytes) ? std::optional(bytes) : std::nullopt;
  }
  if (unit.front() == ' ') {
    unit.remove_prefix(1);
  }
  const std::optional<int64_t> per_unit = BytesPerUnit(absl::AsciiStrToLower(std::string(unit)));
  int64_t whole = 0;
  if (per_unit.has_value() && absl::SimpleAtoi(number, &whole)) {
    const bool fits = whole <= std::numeric_limits<int64_t>::max() / *per_unit;
    return fits ? std::optional(whole * *per_unit) : std::nullopt;
  }
  double fraction = 0;
  if (!per_unit.has_value() || !absl::SimpleAtod(number, &fraction)) {
    return std::nullopt;
  }
  // Below 2^53 a double holds every whole number of bytes exactly.
  const double bytes = std::nearbyint(fraction * static_cast<double>(*per_unit));
  constexpr double kExact = 9007199254740992.0;
  const bool has_part_of_byte = *per_unit == 1 && bytes != fraction;
  return bytes >= kExact || has_part_of_byte ? std::nullopt : std::optional(static_cast<int64_t>(bytes));
}

namespace {

// Writes a whole number of seconds in the units of ParseDuration: "2d", "1h30m". Empty for 0.
std::string SecondsText(int64_t seconds) {
  std::string text;
  for (const auto& [unit, size] : {std::pair<const char*, int64_t>("d", 86'400), {"h", 3'600}, {"m", 60}, {"s", 1}}) {
    absl::StrAppend(&text, seconds < size ? "" : absl::StrCat(seconds / size, unit));
    seconds %= size;
  }
  return text;
}

// Converts a time in the notations of Slurm, D-H[:M[:S]], H:M:S and M:S, to that of ParseDuration: "1h30m" for
// "01:30:00". Empty for other texts.
std::string OfClock(std::string_view text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(std::string(text), absl::MaxSplits('-', 1));
  const bool has_days = text.find('-') != std::string_view::npos;
  std::vector<std::string> clock = absl::StrSplit(has_days ? parts.second : parts.first, ':');
  if (clock.size() > 3 || (!has_days && clock.size() < 2)) {
    return "";
  }
  if (!has_days && clock.size() == 2) {
    clock.insert(clock.begin(), "0");
  }
  clock.insert(clock.begin(), has_days ? parts.first : "0");
  clock.resize(4, "0");
  constexpr int64_t kSeconds[] = {86'400, 3'600, 60, 1};
  int64_t sum = 0;
  for (size_t i = 0; i < clock.size(); ++i) {
    int64_t number = 0;
    constexpr size_t kMostDigits = 6;
    if (clock[i].size() > kMostDigits || !absl::ascii_isdigit(clock[i].empty() ? '-' : clock[i].front()) ||
        !absl::SimpleAtoi(clock[i], &number)) {
      return "";
    }
    sum += number * kSeconds[i];
  }
  return SecondsText(sum);
}

// Converts a duration of ISO 8601 to the notation of ParseDuration: "1d12h" for "P1DT12H". Empty for other texts.
std::string OfIso8601(std::string_view text) {
  const bool is_period = text.size() > 2 && text.front() == 'P';
  const std::pair<std::string, std::string> sides =
      absl::StrSplit(absl::AsciiStrToLower(std::string(text.substr(is_period ? 1 : 0))), absl::MaxSplits('t', 1));
  const bool has_odd_unit = sides.first.find_first_not_of("0123456789.d") != std::string::npos;
  const std::string joined = sides.first + sides.second;
  return is_period && !has_odd_unit && ParseDuration(joined).has_value() ? joined : "";
}

}  // namespace

std::string GuessDuration(std::string_view text) {
  for (const std::string& clock : {OfClock(text), OfIso8601(text)}) {
    if (!clock.empty()) {
      return clock;
    }
  }
  text.remove_suffix(text.ends_with(" ago") ? std::string_view(" ago").size() : 0);
  if (text == "yesterday") {
    return "1d";
  }
  // Longer words come first, because some contain a shorter one: "milliseconds" contains "seconds".
  std::string guess = absl::StrReplaceAll(
      absl::AsciiStrToLower(std::string(text)),
      {{"milliseconds", "ms"}, {"millisecond", "ms"}, {"seconds", "s"}, {"second", "s"}, {"secs", "s"},  {"sec", "s"},
       {"minutes", "m"},       {"minute", "m"},       {"mins", "m"},    {"min", "m"},    {"hours", "h"}, {"hour", "h"},
       {"hrs", "h"},           {"hr", "h"},           {"days", "d"},    {"day", "d"},    {"weeks", "w"}, {"week", "w"},
       {"wks", "w"},           {"wk", "w"},           {" ", ""}});
  int weeks = 0;
  if (guess.ends_with('w') && absl::SimpleAtoi(guess.substr(0, guess.size() - 1), &weeks) && weeks > 0 &&
      weeks < 1000) {
    return absl::StrCat(weeks * 7, "d");
  }
  // In "1h30", the last number has the unit below that of the number before it.
  const size_t unit = guess.find_last_not_of("0123456789");
  const std::string_view below = unit == std::string::npos || unit + 1 == guess.size() ? ""
                                 : guess[unit] == 'd'                                  ? "h"
                                 : guess[unit] == 'h'                                  ? "m"
                                 : guess[unit] == 'm'                                  ? "s"
                                                                                       : "";
  guess += below;
  if (!guess.empty() && NumberLength(guess) == guess.size()) {
    guess += "s";
  }
  return guess != text && ParseDuration(guess).has_value() ? guess : "";
}

std::string GuessByteCount(std::string_view text) {
  const size_t length = NumberLength(text);
  std::string unit = absl::AsciiStrToUpper(std::string(text.substr(length)));
  absl::StripAsciiWhitespace(&unit);
  const bool is_binary = unit.size() > 1 && unit[1] == 'I';
  if (length == 0 || unit.empty() || !absl::StrContains("KMGTP", unit.substr(0, 1))) {
    return "";
  }
  const std::string guess =
      absl::StrCat(std::string(text.substr(0, length)), unit.substr(0, 1), is_binary ? "iB" : "B");
  return guess != text && ParseByteCount(guess).has_value() ? guess : "";
}

std::string NotADuration(std::string_view text) {
  return Refusal(text, WhyTooLong(text), kDurationWords, GuessDuration(text));
}

std::string NotAByteCount(std::string_view text) {
  return Refusal(text, WhyTooManyBytes(text), kByteCountWords, GuessByteCount(text));
}

std::string ByteCountText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

}  // namespace ampd
