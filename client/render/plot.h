#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Plots of numbers, drawn with characters. All are pure functions of their arguments.
namespace ampd::client {

struct PlotPoint {
  int64_t step = 0;
  double value = 0;
  bool marked = false;  // whether the step of the point was skipped
};

struct PlotOptions {
  int width = 60;      // total columns, axis labels included
  int height = 8;      // rows, without the step axis
  bool ascii = false;  // use neither braille nor block characters
  bool log2 = false;   // use a log2 axis: show each value's exponent of two, and omit values at or below 0
};

// Draws a curve with labelled axes: `height` rows and a row for the step axis, each ended by a newline. Omits points
// that are not finite. On the step axis, an 'x' stands below each marked point. If there are no points, one row says
// so.
std::string PlotCurve(const std::vector<PlotPoint>& points, const PlotOptions& options);

// Draws the values as one row of bars. Each character shows the highest of the values that fall into it; the last
// character shows the latest value. Never uses the full block, so that adjacent rows do not merge. Characters without a
// finite value are blank.
std::string Sparkline(const std::vector<double>& values, int width, bool ascii);

// Draws a progress bar of `width` columns: "[#####-----]  50%". If `fraction` is below 0, because the length is
// unknown, draws dots.
std::string ProgressBar(double fraction, int width, bool ascii);

}  // namespace ampd::client
