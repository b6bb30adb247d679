#include "worker/kernels/cpu/step_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "worker/kernels/cpu/formats.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Numbers over many binades, both signs.
std::vector<float> RandomNumbers(uint64_t seed, size_t count, int lowest_exponent, int highest_exponent) {
  SeededRandom random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    const uint64_t bits = random.Next();
    const double mantissa = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
    const int exponent = lowest_exponent + static_cast<int>((bits & 0x3ff) % (highest_exponent - lowest_exponent + 1));
    number = static_cast<float>(std::ldexp((bits & 0x400) != 0 ? mantissa : -mantissa, exponent));
  }
  return numbers;
}

TEST(Float16, EveryBitPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = FromFloat16(static_cast<uint16_t>(bits));
    const bool is_nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    if (!is_nan) {
      ASSERT_EQ(ToFloat16(value), bits);
    }
  }
}

// The value of a finite fp16 pattern by the definition of the format.
double Float16ByDefinition(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = (bits & 0x3ff) / 1024.0;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, ValuesAreThoseOfTheFormatsDefinition) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    if ((bits & 0x7c00) != 0x7c00) {
      ASSERT_EQ(FromFloat16(static_cast<uint16_t>(bits)), Float16ByDefinition(bits)) << bits;
    }
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (const float number : RandomNumbers(1, 200'000, -26, 15)) {
    const uint16_t got = ToFloat16(number);
    const double error = std::abs(Float16ByDefinition(got) - number);
    for (const int step : {-1, 1}) {
      const auto neighbour = static_cast<uint16_t>(got + step);
      if ((neighbour & 0x7c00) != 0x7c00 && (neighbour & 0x8000) == (got & 0x8000)) {
        const double other = std::abs(Float16ByDefinition(neighbour) - number);
        ASSERT_TRUE(error < other || (error == other && got % 2 == 0)) << number;
      }
    }
  }
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);  // the largest finite one
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(-kInf), 0xfc00);
  EXPECT_EQ(ToFloat16(0x1p-25f), 0);  // a tie between 0 and the smallest subnormal
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEvenAndKeepsSpecials) {
  EXPECT_EQ(ToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(ToBFloat16(kInf), 0x7f80);
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

class PerFormat : public testing::TestWithParam<Format> {
 protected:
  // The numbers in the format, and what they are there.
  void Store(const std::vector<float>& numbers) {
    stored_.resize(numbers.size() * sizeof(float));
    Round(numbers.data(), GetParam(), stored_.data(), static_cast<int64_t>(numbers.size()));
    values_.clear();
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto* bits = reinterpret_cast<const uint16_t*>(stored_.data());
      values_.push_back(GetParam() == Format::kFloat32    ? numbers[i]
                        : GetParam() == Format::kBFloat16 ? FromBFloat16(bits[i])
                                                          : FromFloat16(bits[i]));
    }
  }
  std::vector<std::byte> stored_;
  std::vector<float> values_;
};

INSTANTIATE_TEST_SUITE_P(Formats, PerFormat, testing::Values(Format::kFloat32, Format::kBFloat16, Format::kFloat16));

TEST_P(PerFormat, ExamineGivesTheNormOfAnyLength) {
  for (const size_t count : {0, 1, 15, 16, 17, 1000}) {
    Store(RandomNumbers(2, count, -8, 4));
    double expected = 0;
    for (const float value : values_) {
      expected += static_cast<double>(value) * value;
    }
    const GradientFacts facts = Examine(GetParam(), stored_.data(), static_cast<int64_t>(count));
    EXPECT_NEAR(facts.sum_squares, expected, 1e-12 * expected);
    EXPECT_EQ(facts.num_non_finite, 0);
  }
}

TEST_P(PerFormat, ExamineCountsEveryKindOfNonFiniteElement) {
  std::vector<float> numbers = RandomNumbers(3, 100, -8, 4);
  numbers[0] = kInf;
  numbers[50] = -kInf;
  numbers[99] = std::nanf("");
  Store(numbers);
  const GradientFacts facts = Examine(GetParam(), stored_.data(), 100);
  EXPECT_EQ(facts.num_non_finite, 3);
  EXPECT_FALSE(std::isfinite(facts.sum_squares));
}

TEST_P(PerFormat, AccumulateAddsInFp32) {
  Store(RandomNumbers(4, 100, -8, 4));
  std::vector<float> sum(100, 0.25f);
  Accumulate(GetParam(), stored_.data(), sum.data(), 100);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sum[i], 0.25f + values_[i]);
  }
}

// Adam as its paper writes it (Kingma and Ba 2015, algorithm 1), in double; `l2` false is Loshchilov and Hutter's
// decoupled decay.
TEST_P(PerFormat, AdamFollowsItsPaper) {
  for (const bool l2 : {false, true}) {
    Store(RandomNumbers(5, 64, -6, 0));
    std::vector<float> parameter = RandomNumbers(6, 64, -3, 0);
    std::vector<double> expected(parameter.begin(), parameter.end());
    std::vector<float> m(64), v(64);
    std::vector<double> em(64), ev(64);
    AdamStep step{.learning_rate = 1e-2, .weight_decay = 0.1, .l2 = l2};
    for (int t = 1; t <= 20; ++t) {
      step.correction1 = 1 - std::pow(step.beta1, t);
      step.sqrt_correction2 = std::sqrt(1 - std::pow(step.beta2, t));
      UpdateAdam(step, 0.5f, GetParam(), stored_.data(), parameter.data(), m.data(), v.data(), 64);
      for (size_t i = 0; i < 64; ++i) {
        const double g = 0.5 * values_[i] + (l2 ? 0.1 * expected[i] : 0);
        expected[i] -= l2 ? 0 : 1e-2 * 0.1 * expected[i];
        em[i] = 0.9 * em[i] + 0.1 * g;
        ev[i] = 0.999 * ev[i] + 0.001 * g * g;
        expected[i] -= 1e-2 * (em[i] / (1 - std::pow(0.9, t))) / (std::sqrt(ev[i] / (1 - std::pow(0.999, t))) + 1e-8);
      }
    }
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(parameter[i], expected[i], 2e-6) << (l2 ? "Adam" : "AdamW") << " element " << i;
    }
  }
}

TEST_P(PerFormat, SgdFollowsTorchsRule) {
  for (const bool nesterov : {false, true}) {
    Store(RandomNumbers(7, 64, -6, 0));
    std::vector<float> parameter = RandomNumbers(8, 64, -3, 0);
    std::vector<double> expected(parameter.begin(), parameter.end());
    std::vector<float> buffer(64, 1e30f);  // what it holds before the first step must not matter
    std::vector<double> expected_buffer(64);
    SgdStep step{.learning_rate = 0.1,
                 .momentum = 0.9,
                 .dampening = nesterov ? 0 : 0.2,
                 .weight_decay = 0.01,
                 .nesterov = nesterov};
    for (int t = 1; t <= 10; ++t) {
      step.first = t == 1;
      UpdateSgd(step, 2.0f, GetParam(), stored_.data(), parameter.data(), buffer.data(), 64);
      for (size_t i = 0; i < 64; ++i) {
        const double d = 2.0 * values_[i] + 0.01 * expected[i];
        expected_buffer[i] = t == 1 ? d : 0.9 * expected_buffer[i] + (1 - step.dampening) * d;
        expected[i] -= 0.1 * (nesterov ? d + 0.9 * expected_buffer[i] : expected_buffer[i]);
      }
    }
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(parameter[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace ampd::kernels
