#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Plots of series in characters: pure functions of their arguments.
namespace ampd::client {

struct PlotPoint {
  int64_t step = 0;
  double value = 0;
  bool marked = false;  // a skipped step
};

struct PlotOptions {
  int width = 60;      // total columns, axis labels included
  int height = 8;      // rows, without the step axis
  bool ascii = false;  // no braille and no block characters
  bool log2 = false;   // log2 axis: shows the value's power of two and omits values at or below 0
};

// A curve with labelled axes: `height` rows and one row of steps, each ended by a newline. Points that are not finite
// are omitted. An 'x' in the row of steps marks the columns of marked points. If there are no points, one row says so.
std::string PlotCurve(const std::vector<PlotPoint>& points, const PlotOptions& options);

// One row: each cell shows the highest value of its bin, the last cell the latest value. It never uses the full block,
// so that adjacent rows do not merge. Cells without a finite value are blank.
std::string Sparkline(const std::vector<double>& values, int width, bool ascii);

// "[#####-----]  50%" in `width` columns; dots if `fraction` is below 0 (length unknown).
std::string ProgressBar(double fraction, int width, bool ascii);

}  // namespace ampd::client
