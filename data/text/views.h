#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace ampd::text {

// Converts to absl's string view, which in some builds (Debian's) is a different type from the standard library's.
inline absl::string_view ForAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Splits a text at every `separator` and returns the parts between them. An empty text has one empty part.
inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace ampd::text
