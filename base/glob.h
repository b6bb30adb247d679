#pragma once

#include <string>

namespace ampd {

// Whether all of `text` matches `pattern`: * matches any characters, ? one character, and [abc] one of those listed.
bool GlobMatches(const std::string& pattern, const std::string& text);

}  // namespace ampd
