#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace ampd {

// How far apart results may be that differ by what a number format rounds away. The one place for it: tests that
// compare kernels, networks or devices across formats take their bounds from here, by the narrower format. 0: nothing
// is compared so, but for equality.
struct Tolerance {
  std::string_view format;
  // Half a unit in the last place, relative: a result that is rounded once.
  double rounding = 0;
  // Losses of a small network over tens of steps against the same run in the next wider format (bf16 for FP8, fp32 for
  // the others), relative to the first loss: what the roundings of a few layers add up to.
  double wider = 0;
  // Losses of the same run on a GPU and on a CPU, each relative: the order of sums differs. Of tf32, against fp32.
  double device = 0;
};

inline constexpr Tolerance kTolerances[] = {
    {"fp32", 0x1p-24, 0, 1e-4},    {"tf32", 0x1p-11, 0, 1e-2}, {"bf16", 0x1p-8, 0.05, 2e-2},
    {"fp16", 0x1p-11, 0.01, 2e-2}, {"fp8", 0x1p-4, 0.02, 0},
};

// A format without a row fails the test, and its tolerances are those of equality.
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
