#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Pictures of series in characters: pure functions of their arguments.
namespace ampd::client {

struct PlotPoint {
  int64_t step = 0;
  double value = 0;
  bool marked = false;  // a skipped step
};

struct PlotOptions {
  int width = 60;      // columns in all, axis labels included
  int height = 8;      // rows, without the step axis
  bool ascii = false;  // no braille and no block characters
  bool log2 = false;   // the axis is the value's power of two; values at or below 0 are left out
};

// A curve with labelled axes: `height` rows and one of steps, each ended by a newline. Points that are not finite are
// left out; the columns of marked points carry an 'x' in the row of steps. Empty series: a row that says so.
std::string PlotCurve(const std::vector<PlotPoint>& points, const PlotOptions& options);

// One row: a cell is the highest value of its bin, the last cell the latest value; no full block, so that rows do not
// fuse. Not finite values are blank.
std::string Sparkline(const std::vector<double>& values, int width, bool ascii);

// "[#####-----]  50%" in `width` columns; a fraction below 0 (length unknown) gives dots.
std::string ProgressBar(double fraction, int width, bool ascii);

}  // namespace ampd::client
