#pragma once

#include <cstdlib>
#include <set>
#include <string>

namespace ampd::parity {

// Whether this run compares the model `name`. With AMPD_ALL_MODELS set, as `scripts/test --long` sets it, a run
// compares all models; otherwise those that are not in `long_only`, which leaves at least one of each family.
inline bool IsCompared(const std::string& name, const std::set<std::string>& long_only) {
  return std::getenv("AMPD_ALL_MODELS") != nullptr || !long_only.contains(name);
}

}  // namespace ampd::parity
