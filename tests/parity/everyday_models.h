#pragma once

#include <cstdlib>
#include <set>
#include <string>

#include "tests/host_cpu.h"

namespace ampd::parity {

// Returns whether this run compares the model `name`. If the environment variable AMPD_ALL_MODELS is set, as by
// `scripts/test --long`, a run compares all models. Otherwise it compares the models that are not in `long_only`: at
// least one of each family. On a host without AVX-512 it also leaves out `slow_without_avx512`.
inline bool IsCompared(const std::string& name, const std::set<std::string>& long_only,
                       const std::set<std::string>& slow_without_avx512 = {}) {
  return std::getenv("AMPD_ALL_MODELS") != nullptr ||
         (!long_only.contains(name) && (HostHasAvx512() || !slow_without_avx512.contains(name)));
}

}  // namespace ampd::parity
