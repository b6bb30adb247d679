#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text from outside that is shown to people or sent on.
namespace ampd {

// The text; of one that has more than `max_bytes`, the beginning and "...", together at most that. A character of UTF-8
// is never cut in the middle. REQUIRES: max_bytes >= 3.
std::string Shortened(std::string_view text, size_t max_bytes);

// How many bytes the character at `at` has; 0 where the bytes are no UTF-8. REQUIRES: at < text.size().
size_t Utf8CharacterBytes(std::string_view text, size_t at);

// The text, with a '?' for each byte that is no UTF-8.
std::string ValidUtf8(std::string_view text);

// The text on one line: what would break the line or steer a terminal is escaped as in C, "\n" and "\x1b" as a
// backslash and its letters, and so is a byte that is no UTF-8.
std::string OneLine(std::string_view text);

}  // namespace ampd
