#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ampd {

// Returns the candidate nearest to `word`, for "did you mean": by edit distance (insert, delete, replace, swap of
// neighbours; ignoring case), or because one of the two words begins with the other. Empty if no candidate is near
// enough.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ampd
