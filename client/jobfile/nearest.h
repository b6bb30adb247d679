#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ampd::client {

// The candidate nearest to `word` by edit distance (insert, delete, replace, swap of neighbours; ignoring case), or one
// that begins with `word`. Empty if no candidate is near enough.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ampd::client
