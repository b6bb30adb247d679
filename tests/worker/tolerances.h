#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace ampd {

// Bounds for the difference between two results that should differ only by a number format's rounding. All tests that
// compare kernels, networks or devices across formats take their bounds from this table, from the row of the narrower
// of the two formats. A bound of 0 means that no test uses it, or that the results must be equal.
struct Tolerance {
  std::string_view format;
  // Bound for a result that is rounded once: half a unit in the last place, relative to the result.
  double rounding = 0;
  // Bound for the losses of a small network over tens of steps, compared with the same run in the next wider format
  // (bf16 for FP8, fp32 for the others). The bound is relative to the first loss. It allows for the rounding errors
  // of a few layers, which accumulate.
  double wider = 0;
  // Bound for each loss of a run on a GPU, compared with the same run on a CPU and relative to that loss. The losses
  // differ because sums are added in another order. A run in tf32 is compared with a run in fp32 on the CPU.
  double device = 0;
};

inline constexpr Tolerance kTolerances[] = {
    {"fp32", 0x1p-24, 0, 1e-4},    {"tf32", 0x1p-11, 0, 1e-2}, {"bf16", 0x1p-8, 0.05, 2e-2},
    {"fp16", 0x1p-11, 0.01, 2e-2}, {"fp8", 0x1p-4, 0.02, 0},
};

// Returns the tolerances of a format. If the table has no row for it, the test fails, and all returned bounds are 0.
inline Tolerance ToleranceOf(std::string_view format) {
  for (const Tolerance& tolerance : kTolerances) {
    if (tolerance.format == format) {
      return tolerance;
    }
  }
  ADD_FAILURE() << format << " has no row in the table of tolerances";
  return {};
}

}  // namespace ampd
