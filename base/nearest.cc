#include "base/nearest.h"

#include <algorithm>
#include <cctype>

namespace ampd {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Returns the edit distance of two words, in the variant called optimal string alignment.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) {
    return "";
  }
  const std::string wanted = Lower(word);
  std::string best;
  size_t best_length = 0;  // Number of letters that `best` and the word share, if one begins with the other.
  size_t best_distance = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::string lower = Lower(candidate);
    size_t distance = EditDistance(wanted, lower);
    const bool is_prefix = wanted.size() >= 3 && (lower.starts_with(wanted) || wanted.starts_with(lower));
    distance = is_prefix ? std::min<size_t>(distance, 1) : distance;
    // A candidate that continues the word is nearer than one that is only a short beginning of it.
    const size_t length = is_prefix ? std::min(wanted.size(), lower.size()) : 0;
    if (distance < best_distance || (distance == best_distance && length > best_length && best_length > 0)) {
      best_distance = distance;
      best_length = length;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ampd
