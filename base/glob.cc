#include "base/glob.h"

#include <string_view>

namespace ampd {
namespace {

// Where the set that begins with '[' at `at` ends: behind its ']'. npos if there is no ']', so that the '[' is an
// ordinary character. A ']' that comes first in the set is one of its characters.
size_t SetEnd(std::string_view pattern, size_t at) {
  size_t i = at + 1;
  i += i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^') ? 1 : 0;
  const size_t close = pattern.find(']', i + 1);
  return close == std::string_view::npos ? close : close + 1;
}

// Whether the character is in the set, which is the text between '[' and ']'.
bool IsInSet(std::string_view set, char character) {
  const bool is_negated = set.front() == '!' || set.front() == '^';
  set.remove_prefix(is_negated ? 1 : 0);
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
    const auto first = static_cast<unsigned char>(set[i]);
    const auto last = static_cast<unsigned char>(is_range ? set[i + 2] : set[i]);
    found |= first <= static_cast<unsigned char>(character) && static_cast<unsigned char>(character) <= last;
    i += is_range ? 2 : 0;
  }
  return found != is_negated;
}

// If the element of the pattern at `*at`, which is not a star, matches the character, moves behind the element.
bool Takes(std::string_view pattern, size_t* at, char character) {
  if (pattern[*at] == '[') {
    if (const size_t end = SetEnd(pattern, *at); end != std::string_view::npos) {
      const bool matches = IsInSet(pattern.substr(*at + 1, end - *at - 2), character);
      *at = matches ? end : *at;
      return matches;
    }
  }
  const bool matches = pattern[*at] == '?' || pattern[*at] == character;
  *at += matches ? 1 : 0;
  return matches;
}

}  // namespace

// After a mismatch only the last star has to take more characters: what the stars before it took need not change. So
// the time is at most proportional to the product of both lengths, also for patterns from outside.
bool GlobMatches(const std::string& pattern, const std::string& text) {
  constexpr size_t kNone = std::string::npos;
  size_t at = 0;
  size_t i = 0;
  size_t star = kNone;   // The place behind the last star.
  size_t retry = kNone;  // Where in the text that star's part ends.
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      retry = i;
    } else if (at < pattern.size() && Takes(pattern, &at, text[i])) {
      ++i;
    } else if (star != kNone) {
      at = star;
      i = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

}  // namespace ampd
