#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Cleaning of outside text that is shown to people or sent to others.
namespace ampd {

// The text. If it has more than `max_bytes`, its beginning and "...", together at most `max_bytes`. Never cuts a UTF-8
// character in the middle. REQUIRES: max_bytes >= 3.
std::string Shortened(std::string_view text, size_t max_bytes);

// The number of bytes of the character at `at`; 0 if they are not valid UTF-8. REQUIRES: at < text.size().
size_t Utf8CharacterBytes(std::string_view text, size_t at);

// The text, with a '?' for each byte that is not valid UTF-8.
std::string ValidUtf8(std::string_view text);

// The text on one line. Characters that would break the line or control a terminal, and bytes that are not valid UTF-8,
// are escaped as in C: "\n" and "\x1b" become a backslash and letters.
std::string OneLine(std::string_view text);

}  // namespace ampd
