#include "client/jobfile/number_text.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ampd::client {
namespace {

bool AreDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// A number's sign, its digits before the '.', and the rest from the '.' or the exponent on.
struct NumberParts {
  std::string sign;
  std::string_view whole;
  std::string_view rest;
};

NumberParts Split(std::string_view text) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  std::string_view number(stripped.data(), stripped.size());
  NumberParts parts;
  if (number.starts_with('-') || number.starts_with('+')) {
    parts.sign = number.front() == '-' ? "-" : "";
    number.remove_prefix(1);
  }
  const size_t end = std::min(number.find_first_of(".eE"), number.size());
  parts.whole = number.substr(0, end);
  parts.rest = number.substr(end);
  return parts;
}

}  // namespace

std::optional<std::string> ExactWhole(std::string_view text) {
  constexpr int kMostZeros = 40;
  const NumberParts parts = Split(text);
  const size_t e = std::min(parts.rest.find_first_of("eE"), parts.rest.size());
  std::string_view fraction = parts.rest.substr(0, e);
  fraction.remove_prefix(fraction.empty() ? 0 : 1);
  int exponent = 0;
  const bool has_exponent = e < parts.rest.size();
  if (!AreDigits(parts.whole) || !AreDigits(fraction) || parts.whole.size() + fraction.size() == 0 ||
      (has_exponent && !absl::SimpleAtoi(std::string(parts.rest.substr(e + 1)), &exponent))) {
    return std::nullopt;
  }
  // The number is `digits` times ten to the power of `zeros`, and the last of its digits is not 0.
  std::string digits = absl::StrCat(std::string(parts.whole), std::string(fraction));
  const size_t last = digits.find_last_not_of('0');
  if (last == std::string::npos) {
    return "0";
  }
  const int64_t zeros = static_cast<int64_t>(exponent) - static_cast<int64_t>(fraction.size()) +
                        static_cast<int64_t>(digits.size() - last - 1);
  if (zeros < 0 || zeros > kMostZeros) {
    return std::nullopt;
  }
  digits = digits.substr(0, last + 1);
  return absl::StrCat(parts.sign, digits.substr(digits.find_first_not_of('0')),
                      std::string(static_cast<size_t>(zeros), '0'));
}

std::string WithoutSeparators(std::string_view text) {
  constexpr size_t kGroup = 3;
  const NumberParts parts = Split(text);
  for (const char* const separator : {",", "_", " ", "'", "\u00a0", "\u202f"}) {
    const std::vector<std::string> groups = absl::StrSplit(std::string(parts.whole), separator);
    const bool is_group = std::all_of(groups.begin(), groups.end(), [&](const std::string& group) {
      const bool is_first = &group == &groups.front();
      return !group.empty() && AreDigits(group) &&
             (*separator == '_' || (is_first ? group.size() <= kGroup : group.size() == kGroup));
    });
    if (groups.size() > 1 && is_group && groups.front().front() != '0') {
      return absl::StrCat(parts.sign, absl::StrJoin(groups, ""), std::string(parts.rest));
    }
  }
  return "";
}

std::string WithoutSuffix(std::string_view text) {
  constexpr std::pair<char, int> kSuffixes[] = {{'k', 3}, {'K', 3}, {'M', 6}, {'G', 9}, {'B', 9}, {'%', -2}};
  const auto* const suffix = std::find_if(std::begin(kSuffixes), std::end(kSuffixes), [text](const auto& one) {
    return !text.empty() && one.first == text.back();
  });
  double number = 0;
  if (suffix != std::end(kSuffixes)) {
    const absl::string_view digits =
        absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()).substr(0, text.size() - 1));
    const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789.") == absl::string_view::npos &&
                           absl::SimpleAtod(digits, &number);
    const std::string scaled = absl::StrCat(digits, "e", suffix->second);
    return !is_number ? "" : suffix->second < 0 ? absl::StrCat(number / 100) : ExactWhole(scaled).value_or("");
  }
  const size_t slash = text.find('/');
  double below = 0;
  const bool is_fraction = slash != std::string_view::npos && slash > 0 && AreDigits(text.substr(0, slash)) &&
                           AreDigits(text.substr(slash + 1)) &&
                           absl::SimpleAtod(std::string(text.substr(0, slash)), &number) &&
                           absl::SimpleAtod(std::string(text.substr(slash + 1)), &below);
  return is_fraction && below > 0 ? absl::StrCat(number / below) : "";
}

}  // namespace ampd::client
