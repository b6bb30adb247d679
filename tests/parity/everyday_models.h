#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace ampd::parity {

// Returns those of `names` that a test compares. All of them if AMPD_ALL_MODELS is set, as `scripts/test --long` does.
// Otherwise those that are not in `long_only`, so that every run compares each family of models by one of its kind.
inline std::vector<const char*> EverydayModels(std::initializer_list<const char*> names,
                                               const std::set<std::string>& long_only) {
  std::vector<const char*> chosen;
  const bool takes_all = std::getenv("AMPD_ALL_MODELS") != nullptr;
  std::copy_if(names.begin(), names.end(), std::back_inserter(chosen),
               [&](const char* name) { return takes_all || !long_only.contains(name); });
  return chosen;
}

}  // namespace ampd::parity
