#pragma once

#include <string>
#include <string_view>

namespace ampd {

// Writes a text as a scalar that every reader of YAML 1.1 and 1.2 takes for this string: without quotes where that is
// safe, otherwise in double quotes. Bytes that are not UTF-8 become '?'.
std::string YamlScalar(std::string_view text);

}  // namespace ampd
