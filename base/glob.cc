#include "base/glob.h"

#include <string_view>

namespace ampd {
namespace {

// Returns the position after the ']' that ends the set whose '[' is at `at`. A ']' directly after "[", "[!" or "[^" is
// a character of the set. Returns npos if no ']' ends the set; the '[' is then an ordinary character.
size_t SetEnd(std::string_view pattern, size_t at) {
  size_t i = at + 1;
  i += i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^') ? 1 : 0;
  const size_t close = pattern.find(']', i + 1);
  return close == std::string_view::npos ? close : close + 1;
}

// Whether the set, which is the text between '[' and ']' such as "a-z" or "!abc", contains the character.
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

// Compares the character with the element at `*at` of the pattern: a set, '?' or a character, but not a star. If they
// match, moves `*at` behind the element and returns true.
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

// After a mismatch, the loop lets the last star match one more character. It never changes what an earlier star
// matches, because that cannot help. So the time is at most proportional to the product of both lengths, also for
// malicious patterns.
bool GlobMatches(const std::string& pattern, const std::string& text) {
  constexpr size_t kNone = std::string::npos;
  size_t at = 0;
  size_t i = 0;
  size_t star = kNone;   // The position in the pattern after its last star.
  size_t retry = kNone;  // The position in the text after what this star matches.
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
