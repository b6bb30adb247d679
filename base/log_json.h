#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace ampd {

// Formats one log line as a JSON object in pure ASCII, including the newline. A byte that is not UTF-8 becomes U+FFFD.
// A field that has the name of a standard key ("time", "level", "message") gets the prefix "field_".
std::string JsonLine(const std::string& time, const std::string& level, std::string_view message,
                     const LogFields& fields);

}  // namespace ampd
