#include "base/yaml/misplaced_colon.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/yaml/bare_line.h"

namespace ampd {
namespace {

constexpr size_t kMaxShownPart = 40;

size_t Indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

// Returns the text behind the first ": " of a line; empty if there is none.
std::string_view ValueIn(std::string_view text) {
  const size_t colon = text.find(": ");
  const size_t value = colon == std::string_view::npos ? colon : text.find_first_not_of(' ', colon + 1);
  return value == std::string_view::npos ? std::string_view() : text.substr(value);
}

}  // namespace

std::string ExplainMisplacedColon(const std::vector<std::string>& lines, size_t number) {
  if (number == 0 || number > lines.size()) {
    return "";
  }
  const std::string& line = lines[number - 1];
  const std::string text(WithoutComment(line));
  const std::string value(ValueIn(text));
  if (value.find(": ") != std::string::npos && value.find_first_of("\"'[]{}") == std::string::npos) {
    const std::string key = text.substr(0, text.find(": "));
    return absl::StrCat("two fields stand in one line; write ", Shortened(key, kMaxShownPart), ": {",
                        Shortened(value, kMaxShownPart), "}, or put the value in quotes if it is a text");
  }
  for (size_t above = number - 1; above > 0; --above) {
    const std::string before(WithoutComment(lines[above - 1]));
    if (before.empty()) {
      continue;
    }
    const bool has_value = !ValueIn(before).empty() && before.find_first_of("[]{}|>\"'") == std::string::npos;
    return has_value && Indentation(line) > Indentation(lines[above - 1])
               ? absl::StrCat("indented deeper than line ", above,
                              ", whose field has a value; let both begin in the same column")
               : "";
  }
  return "";
}

}  // namespace ampd
