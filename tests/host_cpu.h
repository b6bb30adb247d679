#pragma once

#include "absl/strings/match.h"
#include "base/io/file.h"

namespace ampd {

// Returns whether this host's CPU has AVX-512. On a CPU without it, LibTorch computes 16-bit convolutions in fp32
// copies, and 16-bit products one number at a time, so tests in 16 bits take minutes instead of seconds.
inline bool HostHasAvx512() {
  static const bool has_it = absl::StrContains(ReadFile("/proc/cpuinfo", int64_t{1} << 24).value(), " avx512bw");
  return has_it;
}

}  // namespace ampd
