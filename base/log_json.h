#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace ampd {

// A line of the log as one JSON object, in pure ASCII, with the line's end. A byte that is not UTF-8 becomes U+FFFD. A
// field whose name is one of the line's own keys is written as "field_" and its name.
std::string JsonLine(const std::string& time, const std::string& level, std::string_view message,
                     const LogFields& fields);

}  // namespace ampd
