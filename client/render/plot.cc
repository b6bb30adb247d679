#include "client/render/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr int kLabelWidth = 9;

std::string Utf8(uint32_t code) {
  // Braille and block characters are between U+0800 and U+FFFF, so they take three bytes in UTF-8.
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// A grid of dots, from which a plot is made. One character shows 2 x 4 dots (braille) or one dot (ASCII).
class Canvas {
 public:
  Canvas(int columns, int rows, bool ascii)
      : columns_(columns), rows_(rows), ascii_(ascii), dots_(static_cast<size_t>(columns) * rows) {}

  int width() const { return columns_ * cell_width(); }
  int height() const { return rows_ * cell_height(); }

  // Returns the row of characters that shows the dots at `y`. Rows count from the top, y counts from the bottom.
  int RowOf(int y) const { return (height() - 1 - y) / cell_height(); }

  // Sets the dot at (x, y); y counts from the bottom.
  void Set(int x, int y) {
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int down = height() - 1 - y;
    uint8_t& cell = dots_[static_cast<size_t>(down / cell_height()) * columns_ + x / cell_width()];
    cell |= ascii_ ? 1 : kBits[down % 4][x % 2];
  }

  void Line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      Set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
    }
  }

  std::string Row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t dots = dots_[static_cast<size_t>(row) * columns_ + column];
      text += ascii_ ? (dots != 0 ? "*" : " ") : (dots != 0 ? Utf8(0x2800 + dots) : " ");
    }
    return text;
  }

 private:
  int cell_width() const { return ascii_ ? 1 : 2; }
  int cell_height() const { return ascii_ ? 1 : 4; }

  const int columns_;
  const int rows_;
  const bool ascii_;
  std::vector<uint8_t> dots_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Returns the finite points. On a log2 axis, replaces each value by its exponent of two.
std::vector<PlotPoint> Plotted(const std::vector<PlotPoint>& points, bool log2) {
  std::vector<PlotPoint> plotted;
  for (PlotPoint point : points) {
    if (log2) {
      point.value = point.value > 0 ? std::log2(point.value) : std::numeric_limits<double>::quiet_NaN();
    }
    if (std::isfinite(point.value)) {
      plotted.push_back(point);
    }
  }
  return plotted;
}

int Scale(double value, double low, double high, int last) {
  return high <= low ? last / 2 : static_cast<int>(std::lround((value - low) / (high - low) * last));
}

std::string Label(double value, bool log2) {
  return absl::StrFormat("%*s", kLabelWidth - 2,
                         log2 ? absl::StrCat("2^", FormatNumber(std::round(value * 10) / 10)) : FormatNumber(value));
}

std::string StepAxis(const std::vector<PlotPoint>& all, Range steps, int columns) {
  std::string axis(columns, '-');
  for (const PlotPoint& point : all) {
    if (point.marked) {
      axis[Scale(static_cast<double>(point.step), steps.low, steps.high, columns - 1)] = 'x';
    }
  }
  const std::string last = " " + FormatCount(static_cast<int64_t>(steps.high));
  return absl::StrFormat("%*s", kLabelWidth - 2, "step") + " +" + axis + last + "\n";
}

}  // namespace

std::string PlotCurve(const std::vector<PlotPoint>& points, const PlotOptions& options) {
  const std::vector<PlotPoint> plotted = Plotted(points, options.log2);
  if (plotted.empty()) {
    return std::string(kLabelWidth, ' ') + (points.empty() ? "(nothing yet)\n" : "(no finite value to show)\n");
  }
  Range steps;
  for (const PlotPoint& point : points) {
    steps.Add(static_cast<double>(point.step));
  }
  Range values;
  for (const PlotPoint& point : plotted) {
    values.Add(point.value);
  }
  const int label_right = static_cast<int>(FormatCount(static_cast<int64_t>(steps.high)).size()) + 1;
  const int columns = std::max(4, options.width - kLabelWidth - label_right);
  Canvas canvas(columns, options.height, options.ascii);
  int last_x = -1;
  int last_y = -1;
  for (const PlotPoint& point : plotted) {
    const int x = Scale(static_cast<double>(point.step), steps.low, steps.high, canvas.width() - 1);
    const int y = Scale(point.value, values.low, values.high, canvas.height() - 1);
    canvas.Line(last_x < 0 ? x : last_x, last_x < 0 ? y : last_y, x, y);
    last_x = x;
    last_y = y;
  }
  const int high_row = canvas.RowOf(Scale(values.high, values.low, values.high, canvas.height() - 1));
  std::string text;
  for (int row = 0; row < options.height; ++row) {
    const bool is_low = row == options.height - 1 && values.high > values.low;
    const std::string label = row == high_row ? Label(values.high, options.log2)
                              : is_low        ? Label(values.low, options.log2)
                                              : std::string(kLabelWidth - 2, ' ');
    text += label + " |" + canvas.Row(row) + "\n";
  }
  return text + StepAxis(points, steps, columns);
}

std::string Sparkline(const std::vector<double>& values, int width, bool ascii) {
  constexpr const char* kAscii = "_.-=+*#";
  constexpr int kLevels = 7;
  const size_t count = values.size();
  const size_t cells = std::min<size_t>(width, count);
  Range range;
  for (const double value : values) {
    if (std::isfinite(value)) {
      range.Add(value);
    }
  }
  std::string line;
  for (size_t cell = 0; cell < cells; ++cell) {
    double value = -std::numeric_limits<double>::infinity();
    for (size_t i = cell * count / cells; i < (cell + 1) * count / cells; ++i) {
      value = std::isfinite(values[i]) ? std::max(value, values[i]) : value;
    }
    value = cell + 1 == cells ? values.back() : value;
    if (!std::isfinite(value)) {
      line += " ";
      continue;
    }
    const int level = Scale(value, range.low, range.high, kLevels - 1);
    line += ascii ? std::string(1, kAscii[level]) : Utf8(0x2581 + level);
  }
  return line;
}

std::string ProgressBar(double fraction, int width, bool ascii) {
  const int cells = std::max(1, width - 7);
  if (fraction < 0 || !std::isfinite(fraction)) {
    return "[" + std::string(cells, '.') + "]   -%";
  }
  fraction = std::min(1.0, fraction);
  const int full = static_cast<int>(fraction * cells);
  std::string bar;
  for (int i = 0; i < cells; ++i) {
    bar += ascii ? (i < full ? "#" : "-") : (i < full ? Utf8(0x2588) : Utf8(0x2591));
  }
  return absl::StrCat("[", bar, "] ", absl::StrFormat("%3d%%", static_cast<int>(fraction * 100)));
}

}  // namespace ampd::client
