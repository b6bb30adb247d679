#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Functions on UTF-8 text. They need only ICU's headers, not its library.
namespace ampd::text {

struct CodePoint {
  char32_t value = 0;
  size_t num_bytes = 0;  // 0: the bytes are not UTF-8.
};

// The code point that begins at `at`. REQUIRES: `at` lies within `text`.
CodePoint CodePointAt(std::string_view text, size_t at);

// The position of the first byte that is not part of a valid UTF-8 sequence; npos if there is none. Surrogates,
// overlong forms and truncated sequences are invalid too.
size_t FindInvalidUtf8(std::string_view text);

void AppendUtf8(char32_t value, std::string* out);

// Converts bytes to UTF-8. Every byte that is not part of a valid code point becomes U+FFFD.
std::string WithReplacements(std::string_view bytes);

}  // namespace ampd::text
