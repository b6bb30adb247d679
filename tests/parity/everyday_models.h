#pragma once

#include <cstdlib>
#include <set>
#include <string>

namespace ampd::parity {

// Returns whether this run compares the model `name`. If the environment variable AMPD_ALL_MODELS is set, as by
// `scripts/test --long`, a run compares all models. Otherwise it compares the models that are not in `long_only`: at
// least one of each family.
inline bool IsCompared(const std::string& name, const std::set<std::string>& long_only) {
  return std::getenv("AMPD_ALL_MODELS") != nullptr || !long_only.contains(name);
}

}  // namespace ampd::parity
