#pragma once

#include <string>

namespace ampd {

// Whether all of `text` matches `pattern`, where * stands for any characters, ? for one and [abc] for one of several.
bool GlobMatches(const std::string& pattern, const std::string& text);

}  // namespace ampd
