#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ampd::client {

// The candidate that is nearest to `word` by edit distance (insert, delete, replace, swap of neighbours; case is free),
// or one that begins with it; empty when none is near enough to be meant.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ampd::client
