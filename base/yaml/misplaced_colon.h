#pragma once

#include <string>
#include <vector>

namespace ampd {

// Explains why a ':' is not allowed in line `number`, from 1: two fields stand in one line, or the line is indented
// deeper than the field above it, which has a value. Empty for any other cause.
std::string ExplainMisplacedColon(const std::vector<std::string>& lines, size_t number);

}  // namespace ampd
