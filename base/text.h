#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Functions that clean text from outside before it is shown to people or sent to other programs.
namespace ampd {

// Returns the text if it has at most `max_bytes`; otherwise its beginning and "...", together at most `max_bytes`.
// Never cuts a UTF-8 character in the middle. REQUIRES: max_bytes >= 3.
std::string Shortened(std::string_view text, size_t max_bytes);

// The number of bytes of the UTF-8 character that begins at `at`; 0 if the bytes there are not valid UTF-8. REQUIRES:
// at < text.size().
size_t Utf8CharacterBytes(std::string_view text, size_t at);

// Returns the offset of the first byte that is not valid UTF-8, or nothing if all of the text is.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

// Says that the byte at `at` is not UTF-8: "the byte 0xe9 at offset 12 is not UTF-8".
std::string NotUtf8(std::string_view text, size_t at);

// Returns the text with each byte that is not valid UTF-8 replaced by '?'.
std::string ValidUtf8(std::string_view text);

// Converts the text to a single line that cannot control a terminal, and that shows what is in it. Control characters,
// marks that change the direction of text, other ends of lines, and characters that nobody sees or that look like a
// plain space are escaped as in C and JSON: "\n", "\x1b", "\u202e", "\u00a0". A byte that is not valid UTF-8 becomes
// "\xff".
std::string OneLine(std::string_view text);

}  // namespace ampd
