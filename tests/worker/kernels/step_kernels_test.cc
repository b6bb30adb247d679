#include "worker/kernels/cpu/step_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/worker/kernels/row_fixtures.h"
#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/cpu/plain_kernels.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

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

// Returns the value of a finite fp16 bit pattern by the format's definition.
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
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);  // The largest finite number.
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(-kInf), 0xfc00);
  EXPECT_EQ(ToFloat16(0x1p-25f), 0);  // A tie between 0 and the smallest subnormal.
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEvenAndKeepsSpecials) {
  EXPECT_EQ(ToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // Tie; the even number is below.
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // Tie; the even number is above.
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(ToBFloat16(kInf), 0x7f80);
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

// Runs `pass` with the plain loops and with every instruction set that this machine has, on tensors of every storage
// layout and critical size, and compares all bits. The range that `pass` gets begins and ends inside the larger
// tensors.
template <typename Pass>
void ExpectEverySetEqualsThePlainLoops(Pass pass) {
  int num_sets = 0;
  for (const InstructionSet set : kInstructionSets) {
    const CpuKernels* const kernels = KernelsFor(set);
    num_sets += kernels != nullptr ? 1 : 0;
    for (const Layout& layout : kernels != nullptr ? Layouts() : std::vector<Layout>()) {
      for (const int64_t count : {1, 7, 15, 16, 17, 33, 511, 513, 1040, 1600}) {
        const int64_t begin = count > 40 ? 3 : 0;
        HostTensor expected(static_cast<uint64_t>(count), count, layout);
        HostTensor actual = expected;
        pass(kPlainKernels, expected.Row(), begin, count - begin);
        pass(*kernels, actual.Row(), begin, count - begin);
        for (const auto& [name, bytes] : expected.arrays()) {
          ASSERT_TRUE(actual.arrays().at(name) == bytes) << kernels->name << ", " << actual.Name() << ": " << name;
        }
      }
    }
  }
  EXPECT_GE(num_sets, 1);
}

TEST(InstructionSets, ThePortableOneIsAlwaysThereAndTheBestIsTheWidest) {
  ASSERT_NE(KernelsFor(InstructionSet::kPortable), nullptr);
  const CpuKernels* widest = nullptr;
  for (const InstructionSet set : kInstructionSets) {
    widest = KernelsFor(set) != nullptr ? KernelsFor(set) : widest;
  }
  EXPECT_EQ(&BestKernels(), widest);
}

TEST(InstructionSets, GradStatsGivesThePlainLoopsBits) {
  ExpectEverySetEqualsThePlainLoops([](const CpuKernels& kernels, const TensorRow& row, int64_t begin, int64_t end) {
    const GradientStats expected = kPlainKernels.compute_grad_stats(row, begin, end);
    const GradientStats stats = kernels.compute_grad_stats(row, begin, end);
    EXPECT_EQ(stats.sum_squares, expected.sum_squares);
    EXPECT_EQ(stats.num_non_finite, 0);
  });
}

TEST(InstructionSets, GradStatsCountsEveryKindOfNonFiniteElementWhereverItIs) {
  const float bad[] = {kInf, -kInf, std::nanf(""), -std::nanf(""), std::bit_cast<float>(0x7f800001u)};
  for (const InstructionSet set : kInstructionSets) {
    for (const Format format : kFormats) {
      for (size_t at = 0; KernelsFor(set) != nullptr && at < 1600; at += 37) {
        std::vector<float> numbers = RandomNumbers(3, 1600, -8, 4);
        numbers[at] = bad[at % std::size(bad)];
        const Bytes stored = Stored(numbers, format);
        TensorRow row;
        row.gradient = stored.data();
        row.gradient_format = format;
        const GradientStats stats = KernelsFor(set)->compute_grad_stats(row, 0, 1600);
        EXPECT_EQ(stats.num_non_finite, 1) << KernelsFor(set)->name << " " << NameOf(format) << " element " << at;
        EXPECT_FALSE(std::isfinite(stats.sum_squares));
      }
    }
  }
}

// The squares of large finite gradients exceed the range of a float, so their sum is a double.
TEST(InstructionSets, GradStatsDoesNotOverflowOnLargeFiniteElements) {
  const std::vector<float> numbers(100, std::numeric_limits<float>::max());
  TensorRow row;
  row.gradient = numbers.data();
  for (const InstructionSet set : kInstructionSets) {
    if (KernelsFor(set) != nullptr) {
      const GradientStats stats = KernelsFor(set)->compute_grad_stats(row, 0, 100);
      const double largest = std::numeric_limits<float>::max();
      EXPECT_DOUBLE_EQ(stats.sum_squares, 100 * largest * largest);
      EXPECT_EQ(stats.num_non_finite, 0);
    }
  }
}

TEST(InstructionSets, AccumulateGivesThePlainLoopsBits) {
  ExpectEverySetEqualsThePlainLoops([](const CpuKernels& kernels, const TensorRow& row, int64_t begin, int64_t end) {
    kernels.accumulate(row, begin, end);
  });
}

TEST(InstructionSets, RoundGivesThePlainLoopsBitsForSpecialsToo) {
  ExpectEverySetEqualsThePlainLoops([](const CpuKernels& kernels, const TensorRow& row, int64_t begin, int64_t end) {
    if (row.working == nullptr) {
      return;
    }
    const float specials[] = {kInf,      -kInf,    std::nanf(""), -0.0f,   65519.0f, 65520.0f,
                              -65520.0f, 0x1p-24f, 0x1p-25f,      3.4e38f, 0x1p-14f, 0x1.ffep-15f};
    for (int64_t i = 0; i < row.count; ++i) {
      float& master = static_cast<float*>(row.parameter)[i];
      master = i % 2 == 0 ? specials[i / 2 % static_cast<int64_t>(std::size(specials))] : master;
    }
    kernels.round(row, begin, end);
  });
}

StepScalars Scalars(int64_t step) {
  return {.gradient_scale = 0.37f,
          .rate_factor = 0.7,
          .average_decay = 0.9,
          .rounding_seed = 0x123456789abcdefu,
          .step = step};
}

TEST(InstructionSets, UpdateAdamGivesThePlainLoopsBits) {
  for (const bool l2 : {false, true}) {
    ExpectEverySetEqualsThePlainLoops([&](const CpuKernels& kernels, const TensorRow& row, int64_t begin, int64_t end) {
      for (int t = 1; t <= 2; ++t) {
        const AdamStep step{
            .l2 = l2, .correction1 = 1 - std::pow(0.9, t), .sqrt_correction2 = std::sqrt(1 - std::pow(0.999, t))};
        kernels.update_adam(step, Scalars(t), row, begin, end);
      }
    });
  }
}

TEST(InstructionSets, UpdateSgdGivesThePlainLoopsBitsWithAndWithoutMomentum) {
  for (const bool with_momentum : {false, true}) {
    for (const bool nesterov : {false, true}) {
      ExpectEverySetEqualsThePlainLoops([&](const CpuKernels& kernels, TensorRow row, int64_t begin, int64_t end) {
        row.first_moment = with_momentum ? row.first_moment : nullptr;
        for (const int t : {1, 2}) {
          const SgdStep step{.momentum = 0.9, .dampening = nesterov ? 0 : 0.2, .nesterov = nesterov, .first = t == 1};
          kernels.update_sgd(step, Scalars(t), row, begin, end);
        }
      });
    }
  }
}

// If the instruction set allows it, the working copy of a large tensor is written with stores that bypass the caches.
// These stores write whole cache lines.
TEST(InstructionSets, UpdatesOfLargeTensorsGiveThePlainLoopsBits) {
  constexpr int64_t kLarge = (1 << 20) + 77;
  constexpr int64_t kElementsPerLine = 32;
  for (const Format working : {Format::kBFloat16, Format::kFloat16}) {
    const HostTensor start(1, kLarge, {.gradient = working, .working = working, .has_working = true});
    for (const int64_t off_line : {0, 1}) {
      for (const InstructionSet set : kInstructionSets) {
        HostTensor expected = start;
        HostTensor actual = start;
        const TensorRow row = actual.Row();
        const auto address = reinterpret_cast<uintptr_t>(row.working) / sizeof(uint16_t);
        const auto begin = static_cast<int64_t>(kElementsPerLine - address % kElementsPerLine) + off_line;
        kPlainKernels.update_adam({}, Scalars(1), expected.Row(), begin, kLarge);
        (KernelsFor(set) != nullptr ? *KernelsFor(set) : kPlainKernels).update_adam({}, Scalars(1), row, begin, kLarge);
        EXPECT_TRUE(actual.arrays() == expected.arrays()) << NameOf(working) << ", " << begin;
      }
    }
  }
}

// Compares the plain loops themselves with definitions, in double.
class PerFormat : public testing::TestWithParam<Format> {
 protected:
  // Rounds the numbers to the format of this test, and makes them the gradient of row_. Keeps the rounded values.
  void Store(const std::vector<float>& numbers) {
    stored_ = Stored(numbers, GetParam());
    values_ = Widened(stored_, GetParam());
    row_ = {};
    row_.gradient = stored_.data();
    row_.gradient_format = GetParam();
    row_.count = static_cast<int64_t>(numbers.size());
  }
  Bytes stored_;
  std::vector<float> values_;
  TensorRow row_;
};

INSTANTIATE_TEST_SUITE_P(Formats, PerFormat, testing::ValuesIn(kFormats));

TEST_P(PerFormat, GradStatsGivesTheNormOfAnyLength) {
  for (const size_t count : {0, 1, 15, 16, 17, 1000}) {
    Store(RandomNumbers(2, count, -8, 4));
    double expected = 0;
    for (const float value : values_) {
      expected += static_cast<double>(value) * value;
    }
    const GradientStats stats = kPlainKernels.compute_grad_stats(row_, 0, row_.count);
    EXPECT_NEAR(stats.sum_squares, expected, 1e-12 * expected);
    EXPECT_EQ(stats.num_non_finite, 0);
  }
}

TEST_P(PerFormat, AccumulateAddsInFp32) {
  Store(RandomNumbers(4, 100, -8, 4));
  std::vector<float> sum(100, 0.25f);
  row_.accumulated = sum.data();
  kPlainKernels.accumulate(row_, 0, 100);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sum[i], 0.25f + values_[i]);
  }
}

// The expected values are Adam's by its paper (Kingma and Ba 2015, algorithm 1), in double. If `l2` is false, decay is
// decoupled as in Loshchilov and Hutter's AdamW.
TEST_P(PerFormat, AdamFollowsItsPaper) {
  for (const bool l2 : {false, true}) {
    Store(RandomNumbers(5, 64, -6, 0));
    std::vector<float> parameter = RandomNumbers(6, 64, -3, 0);
    std::vector<double> expected(parameter.begin(), parameter.end());
    std::vector<float> m(64), v(64);
    std::vector<double> em(64), ev(64);
    row_.parameter = parameter.data();
    row_.first_moment = m.data();
    row_.second_moment = v.data();
    row_.learning_rate = 2e-2;
    row_.weight_decay = 0.1;
    AdamStep step{.l2 = l2};
    for (int t = 1; t <= 20; ++t) {
      step.correction1 = 1 - std::pow(step.beta1, t);
      step.sqrt_correction2 = std::sqrt(1 - std::pow(step.beta2, t));
      kPlainKernels.update_adam(step, {.gradient_scale = 0.5f, .rate_factor = 0.5}, row_, 0, 64);
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
    std::vector<float> buffer(64, 1e30f);  // The buffer's content before the first step must not matter.
    std::vector<double> expected_buffer(64);
    row_.parameter = parameter.data();
    row_.first_moment = buffer.data();
    row_.learning_rate = 0.1;
    row_.weight_decay = 0.01;
    SgdStep step{.momentum = 0.9, .dampening = nesterov ? 0 : 0.2, .nesterov = nesterov};
    for (int t = 1; t <= 10; ++t) {
      step.first = t == 1;
      kPlainKernels.update_sgd(step, {.gradient_scale = 2.0f}, row_, 0, 64);
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
