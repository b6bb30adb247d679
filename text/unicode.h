#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text in UTF-8 and the classes of Unicode that tokenizers tell apart, by ICU.
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

bool IsSpace(char32_t value);        // White_Space
bool IsLetter(char32_t value);       // L
bool IsNumber(char32_t value);       // N
bool IsControl(char32_t value);      // C: control, format, surrogate, private use, unassigned
bool IsPunctuation(char32_t value);  // P
bool IsAccent(char32_t value);       // Mn, nonspacing mark

// The canonical decomposition, NFD. REQUIRES: `text` is UTF-8.
std::string Decomposed(std::string_view text);

// One code point for one: U+0130 becomes i.
char32_t Lower(char32_t value);

}  // namespace ampd::text
