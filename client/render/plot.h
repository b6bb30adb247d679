#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Plots of numbers, drawn with characters. All are pure functions of their arguments.
namespace ampd::client {

struct PlotPoint {
  int64_t step = 0;
  double value = 0;
  bool marked = false;  // whether the point is of a skipped step
};

struct PlotOptions {
  int width = 60;      // total columns, axis labels included
  int height = 8;      // rows, without the step axis
  bool ascii = false;  // use neither braille nor block characters
  bool log2 = false;   // log2 axis: shows the value's exponent of two and omits values at or below 0
};

// Draws a curve with labelled axes: `height` rows and one row of steps, each ended by a newline. Omits points that are
// not finite. An 'x' in the row of steps stands below each marked point. If there are no points, one row says so.
std::string PlotCurve(const std::vector<PlotPoint>& points, const PlotOptions& options);

// Draws the values as one row of bars. Each cell shows the highest of the values that fall into it, the last cell the
// latest value. Never uses the full block, so that adjacent rows do not merge. Cells without a finite value are blank.
std::string Sparkline(const std::vector<double>& values, int width, bool ascii);

// Draws a progress bar of `width` columns: "[#####-----]  50%". Shows dots if `fraction` is below 0 (the length is
// unknown).
std::string ProgressBar(double fraction, int width, bool ascii);

}  // namespace ampd::client
