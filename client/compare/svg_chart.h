#pragma once

#include <string>
#include <vector>

#include "client/compare/run_facts.h"

// Charts for the HTML report. All are pure functions.
namespace ampd::client {

// Returns the text escaped for use between HTML tags or in a quoted attribute. Replaces control characters as well.
std::string HtmlText(const std::string& text);

// One curve of a chart. Its colour is the CSS variable --s<colour>.
struct ChartSeries {
  std::string name;
  int colour = 0;
  std::vector<CurvePoint> line;   // The curve that is drawn as a strong line.
  std::vector<CurvePoint> faint;  // A curve drawn behind it in a faint colour; may be empty.
};

// Returns an SVG element with the curves over the steps, with axes and a legend. The y axis covers the values of every
// series' `line`; the values of `faint` do not extend it. Lines that rise far above their first values are cut at the
// top. Points that are not finite are omitted. Each line has at most about 400 points. Returns "" if there is nothing
// to draw.
std::string SvgChart(const std::string& title, const std::vector<ChartSeries>& series);

// Returns about five round numbers between `low` and `high`. REQUIRES: low < high, both finite.
std::vector<double> RoundTicks(double low, double high);

}  // namespace ampd::client
