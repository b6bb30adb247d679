#include "data/text/utf8.h"

#include <unicode/utf8.h>

namespace ampd::text {

CodePoint CodePointAt(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    return {first, 1};
  }
  const std::string_view rest = text.substr(at, 4);
  int32_t end = 0;
  UChar32 value = 0;
  U8_NEXT(rest.data(), end, static_cast<int32_t>(rest.size()), value);
  return value < 0 ? CodePoint() : CodePoint{static_cast<char32_t>(value), static_cast<size_t>(end)};
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = CodePointAt(text, at).num_bytes;
    if (num_bytes == 0) {
      return at;
    }
    at += num_bytes;
  }
  return std::string_view::npos;
}

void AppendUtf8(char32_t value, std::string* out) {
  char bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, static_cast<UChar32>(value));
  out->append(bytes, static_cast<size_t>(size));
}

std::string WithReplacements(std::string_view bytes) {
  constexpr char32_t kReplacement = 0xFFFD;
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t num_bytes = CodePointAt(bytes, at).num_bytes;
    if (num_bytes == 0) {
      AppendUtf8(kReplacement, &text);
      ++at;
    } else {
      text.append(bytes.substr(at, num_bytes));
      at += num_bytes;
    }
  }
  return text;
}

}  // namespace ampd::text
