#pragma once

#include <string>

namespace ampd {

// The version of ampd, such as "1.2.3". CMakeLists.txt is the only file that holds the number.
const char* Version();

// What `PROGRAM --version` prints, without the newline: "ampctl 1.2.3".
std::string VersionLine(const std::string& program);

}  // namespace ampd
