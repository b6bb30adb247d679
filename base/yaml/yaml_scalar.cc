#include "base/yaml/yaml_scalar.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace ampd {
namespace {

// Whether every YAML reader takes the unquoted text for a string. Accepts only simple forms; all other texts are
// quoted.
bool IsPlain(std::string_view text) {
  static constexpr const char* kOtherTypes[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  if (text.empty() || !absl::ascii_isalpha(text.front())) {
    return false;
  }
  const bool has_safe_characters = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  });
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  double number = 0;  // "nan" and "infinity" are numbers to some readers
  return has_safe_characters && !absl::SimpleAtod(lower, &number) &&
         std::find(std::begin(kOtherTypes), std::end(kOtherTypes), lower) == std::end(kOtherTypes);
}

// Escapes, as YAML does ("\U000e0041"), the characters beyond U+FFFF that OneLine would escape. REQUIRES: the text is
// UTF-8.
std::string EscapedBeyondFfff(std::string_view text) {
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = Utf8CharacterBytes(text, at);
    const std::string_view character = text.substr(at, num_bytes);
    if (num_bytes < 4 || OneLine(character) == character) {
      escaped += character;
    } else {
      uint32_t point = static_cast<uint8_t>(character[0]) & 0x07U;
      for (const char byte : character.substr(1)) {
        point = (point << 6) | (static_cast<uint8_t>(byte) & 0x3FU);
      }
      absl::StrAppend(&escaped, "\\U", absl::Hex(point, absl::kZeroPad8));
    }
    at += num_bytes;
  }
  return escaped;
}

}  // namespace

std::string YamlScalar(std::string_view text) {
  if (IsPlain(text)) {
    return std::string(text);
  }
  // OneLine's escapes (\n, \x1b, \u202e) are also valid in YAML, except the pair of escapes for a character beyond
  // U+FFFF. Backslashes in the text are doubled first.
  const std::string escaped = absl::StrReplaceAll(
      ValidUtf8(text), {{"\\", "\\\\"}, {"\"", "\\\""}, {"\uFFFE", "\\ufffe"}, {"\uFFFF", "\\uffff"}});
  return absl::StrCat("\"", OneLine(EscapedBeyondFfff(escaped)), "\"");
}

}  // namespace ampd
