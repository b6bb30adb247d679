#pragma once

#include <string>

namespace ampd {

// Whether all of `text` matches `pattern`: * matches any characters, ? one character, [abc] one of those listed, [a-z]
// one of a range, and [!abc] one that is not listed. The time is at most proportional to the product of both lengths.
bool GlobMatches(const std::string& pattern, const std::string& text);

}  // namespace ampd
