#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text in UTF-8. Of ICU it needs the headers alone, no library.
namespace ampd::text {

struct CodePoint {
  char32_t value = 0;
  size_t num_bytes = 0;  // 0: what is there is not UTF-8
};

// The one that begins at `at`. REQUIRES: `at` lies within `text`.
CodePoint CodePointAt(std::string_view text, size_t at);

// Where the first byte lies that is not UTF-8: surrogates, forms longer than they need be and what is cut off included.
// npos: none.
size_t FindInvalidUtf8(std::string_view text);

void AppendUtf8(char32_t value, std::string* out);

// The bytes as UTF-8: U+FFFD in the place of every byte that is part of none.
std::string WithReplacements(std::string_view bytes);

}  // namespace ampd::text
