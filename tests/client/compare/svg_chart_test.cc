#include "client/compare/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace ampd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<CurvePoint> Curve(const std::vector<double>& values) {
  std::vector<CurvePoint> points;
  for (const double value : values) {
    points.push_back({static_cast<int64_t>(points.size()) + 1, value, 0});
  }
  return points;
}

TEST(RoundTicks, AreRoundNumbersWithinTheRange) {
  EXPECT_THAT(RoundTicks(0, 10), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(RoundTicks(0.31, 0.52), ElementsAre(DoubleNear(0.35, 1e-9), DoubleNear(0.4, 1e-9), DoubleNear(0.45, 1e-9),
                                                  DoubleNear(0.5, 1e-9)));
  EXPECT_THAT(RoundTicks(-1, 1), ElementsAre(-1, -0.5, 0, 0.5, 1));
}

TEST(SvgChart, DrawsEachCurveInItsColourWithALegend) {
  const std::string svg = SvgChart("Loss", {{"fp32", 0, Curve({2, 1}), {}}, {"bf16", 1, Curve({2, 1.5}), {}}});
  EXPECT_THAT(svg, HasSubstr("<path style=\"stroke:var(--s0)\" d=\"M64.0 12.0L744.0 265.8\"/>"));
  EXPECT_THAT(svg, HasSubstr("<path style=\"stroke:var(--s1)\" d=\"M64.0 12.0L744.0 138.9\"/>"));
  EXPECT_THAT(svg, HasSubstr("fp32</span>"));
}

TEST(SvgChart, EqualCurvesAreAllSeen) {
  const std::string svg = SvgChart(
      "Loss", {{"fp32", 0, Curve({2, 1}), {}}, {"bf16", 1, Curve({2, 1}), {}}, {"tf32", 2, Curve({2, 1}), {}}});
  EXPECT_THAT(svg, HasSubstr("stroke:var(--s0)\" d="));
  EXPECT_THAT(svg, HasSubstr("stroke:var(--s1);stroke-dasharray:8 8\" d="));
  EXPECT_THAT(svg, HasSubstr("stroke:var(--s2);stroke-dasharray:8 16\" d="));
}

TEST(SvgChart, ALineThatRisesFarAboveItsBeginning_DoesNotFlattenTheOthers) {
  const std::string svg = SvgChart("Loss", {{"fp32", 0, Curve({2, 1}), {}}, {"fp16", 1, Curve({2, 1e9}), {}}});
  // The y axis ends at 3, which is 1.5 times the highest first value 2. The curve of fp32 falls from 2 to 1, which is
  // half of the 253.8 pixels between 3 and 1.
  EXPECT_THAT(svg, HasSubstr("d=\"M64.0 138.9L744.0 265.8\""));
}

TEST(SvgChart, ALongCurve_IsThinnedOut) {
  const std::string svg = SvgChart("Loss", {{"fp32", 0, Curve(std::vector<double>(100'000, 1.0)), {}}});
  EXPECT_LT(std::count(svg.begin(), svg.end(), 'L'), 410);
  EXPECT_THAT(svg, HasSubstr("L744.0")) << "the last point stays";
}

TEST(SvgChart, WithoutTwoFinitePoints_IsEmpty) {
  EXPECT_EQ(SvgChart("Loss", {{"fp32", 0, {}, {}}}), "");
  EXPECT_EQ(SvgChart("Loss", {{"fp32", 0, Curve({std::numeric_limits<double>::quiet_NaN(), 1}), {}}}), "");
}

TEST(SvgChart, NamesAreTextAndNotMarkup) {
  const std::string svg = SvgChart("<b>Loss</b>", {{"</svg><script>alert(\"1\")</script>", 0, Curve({2, 1}), {}}});
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"));
}

}  // namespace
}  // namespace ampd::client
