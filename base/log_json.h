#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace ampd {

// A line of the log as one JSON object, in ASCII alone, with the line's end. A byte that is no UTF-8 becomes U+FFFD. A
// field that has the name of one of the line's own keys is told as "field_" and its name.
std::string JsonLine(const std::string& time, const std::string& level, std::string_view message,
                     const LogFields& fields);

}  // namespace ampd
