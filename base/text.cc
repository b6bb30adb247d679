#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

constexpr std::string_view kEllipsis = "...";

uint32_t ByteAt(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// Decodes the UTF-8 character that begins at byte `at` and has `num_bytes` bytes. REQUIRES: it is valid, and has at
// least two bytes.
uint32_t CodePoint(std::string_view text, size_t at, size_t num_bytes) {
  uint32_t point = ByteAt(text, at) & (0x7FU >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    point = (point << 6) | (ByteAt(text, at + i) & 0x3FU);
  }
  return point;
}

// The code points from `first` to `last`, including both.
struct PointRange {
  uint32_t first;
  uint32_t last;
};

// The code points that OneLine escapes: control characters (C0, DEL and C1), characters that end a line or change the
// direction of text, invisible characters, and characters that look like a plain space. The invisible joiners U+200C
// and U+200D are not escaped, because words and emoji need them.
constexpr PointRange kEscaped[] = {
    {0x00, 0x1F},     {0x7F, 0xA0},       {0xAD, 0xAD},      {0x034F, 0x034F}, {0x061C, 0x061C}, {0x115F, 0x1160},
    {0x1680, 0x1680}, {0x17B4, 0x17B5},   {0x180B, 0x180F},  {0x2000, 0x200B}, {0x200E, 0x200F}, {0x2028, 0x202F},
    {0x205F, 0x206F}, {0x3000, 0x3000},   {0x3164, 0x3164},  {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},
    {0xFFF9, 0xFFFB}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

bool NeedsEscape(uint32_t point) {
  return std::any_of(std::begin(kEscaped), std::end(kEscaped),
                     [point](const PointRange& range) { return point >= range.first && point <= range.last; });
}

std::string EscapedPoint(uint32_t point) {
  switch (point) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      break;
  }
  if (point < 0x20) {
    return absl::StrCat("\\x", absl::Hex(point, absl::kZeroPad2));
  }
  if (point <= 0xFFFF) {
    return absl::StrCat("\\u", absl::Hex(point, absl::kZeroPad4));
  }
  // A code point above U+FFFF is escaped as in JSON: as two surrogates, because "\\u" takes only four digits.
  const uint32_t rest = point - 0x10000;
  return absl::StrCat("\\u", absl::Hex(0xD800 + (rest >> 10), absl::kZeroPad4), "\\u",
                      absl::Hex(0xDC00 + (rest & 0x3FF), absl::kZeroPad4));
}

}  // namespace

size_t Utf8CharacterBytes(std::string_view text, size_t at) {
  const uint32_t first = ByteAt(text, at);
  const size_t num_bytes = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (num_bytes == 1) {
    return 1;
  }
  if (first < 0xC2 || first > 0xF4 || at + num_bytes > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < num_bytes; ++i) {
    if ((ByteAt(text, at + i) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  const uint32_t point = CodePoint(text, at, num_bytes);
  const bool is_overlong = point < (num_bytes == 2 ? 0x80U : num_bytes == 3 ? 0x800U : 0x10000U);
  const bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
  return is_overlong || is_surrogate || point > 0x10FFFF ? 0 : num_bytes;
}

std::string Shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return std::string(text);
  }
  size_t end = max_bytes - kEllipsis.size();
  while (end > 0 && (ByteAt(text, end) & 0xC0U) == 0x80) {
    --end;
  }
  return absl::StrCat(std::string(text.substr(0, end)), "...");
}

std::optional<size_t> FirstInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = Utf8CharacterBytes(text, at);
    if (num_bytes == 0) {
      return at;
    }
    at += num_bytes;
  }
  return std::nullopt;
}

std::string NotUtf8(std::string_view text, size_t at) {
  return absl::StrCat("the byte 0x", absl::Hex(ByteAt(text, at), absl::kZeroPad2), " at offset ", at, " is not UTF-8");
}

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = Utf8CharacterBytes(text, at);
    valid += num_bytes == 0 ? "?" : text.substr(at, num_bytes);
    at += num_bytes == 0 ? 1 : num_bytes;
  }
  return valid;
}

std::string OneLine(std::string_view text) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = Utf8CharacterBytes(text, at);
    if (num_bytes == 0) {
      absl::StrAppend(&line, "\\x", absl::Hex(ByteAt(text, at), absl::kZeroPad2));
      ++at;
      continue;
    }
    const uint32_t point = num_bytes == 1 ? ByteAt(text, at) : CodePoint(text, at, num_bytes);
    if (NeedsEscape(point)) {
      line += EscapedPoint(point);
    } else {
      line += text.substr(at, num_bytes);
    }
    at += num_bytes;
  }
  return line;
}

}  // namespace ampd
