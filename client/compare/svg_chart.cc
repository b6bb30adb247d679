#include "client/compare/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr size_t kMostPoints = 400;
constexpr int kWidth = 760;
constexpr int kHeight = 320;
constexpr int kLeft = 64;
constexpr int kRight = 16;
constexpr int kTop = 12;
constexpr int kBottom = 44;
constexpr double kRoomBelow = 0.04;  // Share of the height that is free below the lowest point.
constexpr double kMostRise = 1.5;    // Lines are cut above this multiple of the highest of their first values.

// The mapping from steps and values to pixels.
struct Frame {
  double first_step = std::numeric_limits<double>::infinity();
  double last_step = -std::numeric_limits<double>::infinity();
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  double X(double step) const {
    return kLeft + (step - first_step) / (last_step - first_step) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const { return kTop + (high - value) / (high - low) * (kHeight - kTop - kBottom); }
};

std::vector<CurvePoint> Finite(std::vector<CurvePoint> points) {
  std::erase_if(points, [](const CurvePoint& point) { return !std::isfinite(point.value); });
  return points;
}

Frame FrameOf(const std::vector<ChartSeries>& series) {
  Frame frame;
  double highest_start = -std::numeric_limits<double>::infinity();
  for (const ChartSeries& one : series) {
    const std::vector<CurvePoint> line = Finite(one.line);
    for (const CurvePoint& point : line) {
      frame.first_step = std::min(frame.first_step, static_cast<double>(point.step));
      frame.last_step = std::max(frame.last_step, static_cast<double>(point.step));
      frame.low = std::min(frame.low, point.value);
      frame.high = std::max(frame.high, point.value);
    }
    highest_start = line.empty() ? highest_start : std::max(highest_start, line.front().value);
  }
  if (highest_start > 0) {
    frame.high = std::min(frame.high, kMostRise * highest_start);
  }
  if (frame.low >= frame.high) {  // A flat line is drawn in the middle.
    frame.low -= 0.5;
    frame.high = frame.low + 1;
  }
  frame.low -= kRoomBelow * (frame.high - frame.low);
  frame.last_step = std::max(frame.last_step, frame.first_step + 1);
  return frame;
}

std::string Path(const std::vector<CurvePoint>& points, const Frame& frame) {
  const std::vector<CurvePoint> finite = Finite(points);
  const size_t stride = finite.size() / kMostPoints + 1;
  std::string path;
  for (size_t i = 0; i < finite.size(); ++i) {
    if (i % stride == 0 || i + 1 == finite.size()) {
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L",
                            frame.X(static_cast<double>(finite[i].step)), frame.Y(finite[i].value));
    }
  }
  return path;
}

// Returns the style of a curve that covers `num_below` curves of equal values: dashes, whose gaps show the curves
// below.
std::string Dashes(int num_below) {
  constexpr int kDash = 8;
  return num_below == 0 ? "" : absl::StrCat(";stroke-dasharray:", kDash, " ", kDash * num_below);
}

std::string Axes(const Frame& frame) {
  std::string text;
  const int bottom = kHeight - kBottom;
  for (const double value : RoundTicks(frame.low, frame.high)) {
    const double y = frame.Y(value);
    absl::StrAppendFormat(&text,
                          "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          kLeft, kWidth - kRight, y, y, kLeft - 8, y + 4, FormatNumber(value));
  }
  for (const double step : RoundTicks(frame.first_step, frame.last_step)) {
    if (step == std::floor(step)) {
      absl::StrAppendFormat(&text, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", frame.X(step),
                            bottom + 18, FormatCount(static_cast<int64_t>(step)));
    }
  }
  absl::StrAppendFormat(&text,
                        "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>"
                        "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n",
                        kLeft, kWidth - kRight, bottom, bottom, (kLeft + kWidth - kRight) / 2, kHeight - 6);
  return text;
}

std::string Legend(const std::vector<ChartSeries>& series) {
  std::string text = "<p class=\"legend\">";
  std::set<std::string> names;
  for (const ChartSeries& one : series) {
    if (names.insert(one.name).second) {
      absl::StrAppend(&text, "<span><i style=\"background:var(--s", one.colour, ")\"></i>", HtmlText(one.name),
                      "</span> ");
    }
  }
  return text + "</p>\n";
}

}  // namespace

std::string HtmlText(const std::string& text) {
  return absl::StrReplaceAll(Printable(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::vector<double> RoundTicks(double low, double high) {
  constexpr double kAbout = 5;
  const double raw = (high - low) / kAbout;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double factor = raw / power;
  const double interval = power * (factor > 5 ? 10 : factor > 2 ? 5 : factor > 1 ? 2 : 1);
  std::vector<double> ticks;
  for (double i = std::ceil(low / interval); i * interval <= high; ++i) {
    ticks.push_back(i * interval);
  }
  return ticks;
}

std::string SvgChart(const std::string& title, const std::vector<ChartSeries>& series) {
  if (std::all_of(series.begin(), series.end(), [](const ChartSeries& one) { return Finite(one.line).size() < 2; })) {
    return "";
  }
  const Frame frame = FrameOf(series);
  std::string text = absl::StrFormat(
      "<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n"
      "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" viewBox=\"%d %d %d %d\">\n",
      HtmlText(title), kWidth, kHeight, HtmlText(title), kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom,
      kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
  for (const ChartSeries& one : series) {
    if (const std::string path = Path(one.faint, frame); !path.empty()) {
      absl::StrAppend(&text, "<path class=\"faint\" style=\"stroke:var(--s", one.colour, ")\" d=\"", path, "\"/>\n");
    }
  }
  std::map<std::string, int> times_drawn;
  for (const ChartSeries& one : series) {
    if (const std::string path = Path(one.line, frame); !path.empty()) {
      absl::StrAppend(&text, "<path style=\"stroke:var(--s", one.colour, ")", Dashes(times_drawn[path]++), "\" d=\"",
                      path, "\"/>\n");
    }
  }
  return absl::StrCat(text, "</svg>\n", Axes(frame), "</svg>\n", Legend(series), "</figure>\n");
}

}  // namespace ampd::client
