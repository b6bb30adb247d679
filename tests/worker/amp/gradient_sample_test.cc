#include "worker/amp/gradient_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"

namespace ampd::amp {
namespace {

at::Tensor Half(const std::vector<double>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kHalf);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.data_ptr<at::Half>()[i] = static_cast<at::Half>(static_cast<float>(values[i]));
  }
  return tensor;
}

GradientSample SampleOf(const at::Tensor& gradient) { return SampleGradient(gradient, gradient.scalar_type()); }

TEST(GradientSample, CountsWhereEachElementLies) {
  const GradientSample sample =
      SampleOf(Half({0, -0.0, 0x1p-24, -0x1p-15, 0x1p-14, -0x1.8p-14, 1, 65504, INFINITY, NAN}));
  EXPECT_EQ(sample.num_elements, 10);
  EXPECT_EQ(sample.num_zero, 2);
  EXPECT_EQ(sample.num_subnormal, 2);
  EXPECT_EQ(sample.num_non_finite, 2);
  EXPECT_EQ(sample.NumWithExponent(-24), 1);
  EXPECT_EQ(sample.NumWithExponent(-15), 1);
  EXPECT_EQ(sample.NumWithExponent(-14), 2);
  EXPECT_EQ(sample.NumWithExponent(0), 1);
  EXPECT_EQ(sample.NumWithExponent(15), 1);
  EXPECT_DOUBLE_EQ(sample.UnderflowShare(), 2.0 / 8);
  EXPECT_EQ(DescribeExponents(sample),
            "0 20.0%, 2^-24..-15 20.0%, 2^-14 20.0%, 2^0 10.0%, 2^15 10.0%, not finite 20.0%");
}

TEST(GradientSample, OfALargeTensorIsSpreadOverAllOfItInWhateverOrder) {
  at::Tensor large =
      at::zeros({3, 1000, 10, 10}, at::TensorOptions(at::kHalf)).contiguous(at::MemoryFormat::ChannelsLast);
  large.select(0, 2).fill_(1);
  const GradientSample sample = SampleOf(large);
  EXPECT_EQ(sample.num_elements, 60'000) << "every fifth";
  EXPECT_EQ(sample.num_zero, 40'000);
  EXPECT_EQ(sample.NumWithExponent(0), 20'000);
}

TEST(GradientSample, OfTheWiderFormatsHasTheirRange) {
  const at::Tensor fp32 = at::zeros({7}, at::TensorOptions(at::kFloat));
  const std::vector<float> values = {0, 0x1p-149f, -0x1.8p-127f, 0x1p-126f, 0x1.fp-1f, 0x1.fp127f, INFINITY};
  std::copy(values.begin(), values.end(), fp32.data_ptr<float>());
  const GradientSample wide = SampleOf(fp32);
  EXPECT_EQ(wide.num_zero, 1);
  EXPECT_EQ(wide.num_non_finite, 1);
  EXPECT_EQ(wide.num_subnormal, 2);
  for (const int exponent : {-149, -127, -126, -1, 127}) {
    EXPECT_EQ(wide.NumWithExponent(exponent), 1) << exponent;
  }
  const GradientSample narrow = SampleOf(fp32.to(at::kBFloat16));
  EXPECT_EQ(narrow.dtype, at::kBFloat16);
  EXPECT_EQ(narrow.num_zero, 2) << "2^-149 is beyond bf16";
  EXPECT_EQ(narrow.num_subnormal, 1);
  EXPECT_EQ(DescribeExponents(narrow),
            "0 28.6%, 2^-133..-127 14.3%, 2^-126 14.3%, 2^-1 14.3%, 2^127 14.3%, not finite 14.3%");
}

TEST(GradientSample, OfAWidenedGradientIsThatOfTheFormatItsNumbersWereRoundedTo) {
  const at::Tensor narrow = Half({0, 0x1p-24, -0x1p-15, 0x1p-14, 1, INFINITY});
  const GradientSample widened = SampleGradient(narrow.to(at::kFloat), at::kHalf);
  EXPECT_EQ(widened.dtype, at::kHalf);
  EXPECT_EQ(widened.num_subnormal, 2);
  EXPECT_EQ(DescribeExponents(widened), DescribeExponents(SampleOf(narrow)));
  EXPECT_EQ(SampleOf(narrow.to(at::kFloat)).num_subnormal, 0) << "none of them is small in fp32";
}

TEST(GradientSample, SuggestsTheScaleThatPutsTheLargestAnEighthBelowOverflow) {
  const GradientSample small = SampleOf(Half({0, 0x1p-20, -0x1.8p-10}));
  const GradientSample larger = SampleOf(Half({0x1p-6}));
  const precision::ScaleRange all;
  EXPECT_EQ(SuggestScale({small}, 4, all), 4 * 0x1p22);
  EXPECT_EQ(SuggestScale({small, larger}, 4, all), 4 * 0x1p18);
  EXPECT_EQ(SuggestScale({SampleOf(Half({16384}))}, 4, all), 1);
  EXPECT_EQ(SuggestScale({SampleOf(Half({0, 0}))}, 4, all), 4);
  EXPECT_EQ(SuggestScale({SampleOf(Half({0x1p-24, 0x1.8p-20}))}, 4, all), 4 * 0x1p32) << "of subnormal ones too";
  EXPECT_EQ(SuggestScale({SampleOf(Half({0x1p-24}).to(at::kFloat).mul(0x1p-125f))}, 4, all), 0x1p127) << "an fp32";
  EXPECT_EQ(SuggestScale({small, SampleOf(Half({INFINITY}))}, 4, all), 4);
}

TEST(GradientSample, SuggestsNoScaleBeyondFloorAndCap) {
  const precision::ScaleRange range = {.least = 4, .greatest = 0x1p20};
  EXPECT_EQ(SuggestScale({SampleOf(Half({0x1p-20}))}, 8, range), 0x1p20);
  EXPECT_EQ(SuggestScale({SampleOf(Half({0x1p12}))}, 8, range), 8);
  EXPECT_EQ(SuggestScale({SampleOf(Half({0x1p14}))}, 8, range), 4);
}

TEST(GradientSample, OfNothingThatIsNotZeroHasNoShare) { EXPECT_EQ(SampleOf(Half({0, 0})).UnderflowShare(), 0); }

}  // namespace
}  // namespace ampd::amp
