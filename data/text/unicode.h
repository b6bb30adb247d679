#pragma once

#include <string>
#include <string_view>

// Functions that look up the Unicode class of a character in ICU, as tokenizers need it. The comment beside each
// function names its class.
namespace ampd::text {

bool IsSpace(char32_t value);        // White_Space
bool IsLetter(char32_t value);       // L
bool IsNumber(char32_t value);       // N
bool IsControl(char32_t value);      // C: control, format, surrogate, private use, unassigned
bool IsPunctuation(char32_t value);  // P
bool IsAccent(char32_t value);       // Mn, nonspacing mark

// The canonical decomposition of a text (NFD). REQUIRES: `text` is UTF-8.
std::string Decomposed(std::string_view text);

// The lower case of a code point, always a single code point: U+0130 becomes i.
char32_t Lower(char32_t value);

}  // namespace ampd::text
