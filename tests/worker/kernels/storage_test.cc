// Tests what must hold for parameters and moments that are stored in 16 bits, whichever instruction set is used.
// (step_kernels_test.cc compares the loops of every instruction set with the plain ones.)
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/worker/kernels/row_fixtures.h"
#include "worker/kernels/cpu/step_kernels.h"
#include "worker/kernels/philox.h"

namespace ampd::kernels {
namespace {

constexpr Format kBf16 = Format::kBFloat16;

// The numbers of an array, converted to fp32.
std::vector<float> Numbers(const HostTensor& tensor, const std::string& name, Format format) {
  const std::byte* const data = tensor.arrays().at(name).data() + kGuardBytes;
  std::vector<float> numbers;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    numbers.push_back(format == Format::kFloat32    ? reinterpret_cast<const float*>(data)[i]
                      : format == Format::kBFloat16 ? FromBFloat16(reinterpret_cast<const uint16_t*>(data)[i])
                                                    : FromFloat16(reinterpret_cast<const uint16_t*>(data)[i]));
  }
  return numbers;
}

TEST(Halves, JoinGivesBackEveryBitOfEveryNumber) {
  // Tries all upper halves of an fp32 number. Each is combined with a random lower half, and with the lower halves at
  // which rounding changes.
  SeededRandom random(1);
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    const auto noise = static_cast<uint32_t>(random.Next() & 0xffff);
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, noise}) {
      const auto number = std::bit_cast<float>(upper << 16 | lower);
      const float joined = Join(UpperHalf(number), LowerHalf(number));
      if (std::isnan(number)) {
        ASSERT_TRUE(std::isnan(joined)) << std::hex << upper << " " << lower;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(joined), upper << 16 | lower) << std::hex << upper << " " << lower;
      }
    }
  }
}

TEST(Halves, TheUpperHalfIsTheNearestNumberAndATieGoesAwayFromZero) {
  for (const float number : RandomNumbers(2, 100'000, -30, 30)) {
    EXPECT_EQ(std::abs(FromBFloat16(UpperHalf(number)) - number), std::abs(FromBFloat16(ToBFloat16(number)) - number));
  }
  EXPECT_EQ(UpperHalf(std::bit_cast<float>(0x3f808000u)), 0x3f81);
  EXPECT_EQ(UpperHalf(std::bit_cast<float>(0xbf808000u)), 0xbf81);
  EXPECT_EQ(UpperHalf(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(UpperHalf(std::numeric_limits<float>::infinity()), 0x7f80);
}

// The counters, keys and results are test vectors of Random123, the library of Philox's authors.
TEST(Philox, GivesItsAuthorsNumbers) {
  const auto words = [](PhiloxBlock block) {
    return std::array{block.words[0], block.words[1], block.words[2], block.words[3]};
  };
  EXPECT_EQ(words(Philox({{0, 0, 0, 0}}, 0, 0)), (std::array{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(words(Philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)),
            (std::array{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(words(Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (std::array{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

class EverySet : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (KernelsFor(GetParam()) == nullptr) {
      GTEST_SKIP() << "this machine lacks the set";
    }
  }
  static const CpuKernels& Kernels() { return *KernelsFor(GetParam()); }

  // Runs step number `t` of Adam or SGD, with new gradients.
  static void Step(int t, bool adam, HostTensor& tensor) {
    tensor.SetGradient(RandomNumbers(static_cast<uint64_t>(t) * 1000, tensor.count(), -12, 0));
    const StepScalars scalars{.gradient_scale = 0.5f, .average_decay = 0.75, .rounding_seed = 99, .step = t};
    if (adam) {
      const AdamStep step{.correction1 = 1 - std::pow(0.9, t), .sqrt_correction2 = std::sqrt(1 - std::pow(0.999, t))};
      Kernels().update_adam(step, scalars, tensor.Row(), 0, tensor.count());
    } else {
      Kernels().update_sgd({.momentum = 0.9, .first = t == 1}, scalars, tensor.Row(), 0, tensor.count());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, EverySet, testing::ValuesIn(kInstructionSets));

TEST_P(EverySet, WeightsWithARemainderAreTheFp32MastersBitForBit) {
  for (const bool adam : {true, false}) {
    HostTensor masters(7, 3000, {.gradient = kBf16, .working = kBf16, .has_working = true});
    HostTensor halves(7, 3000, {.gradient = kBf16, .parameter = kBf16, .remainder = true});
    for (int t = 1; t <= 50; ++t) {
      Step(t, adam, masters);
      Step(t, adam, halves);
    }
    const std::vector<float> expected = Numbers(masters, "parameter", Format::kFloat32);
    const TensorRow row = halves.Row();
    for (int64_t i = 0; i < 3000; ++i) {
      ASSERT_EQ(Join(static_cast<const uint16_t*>(row.parameter)[i], row.remainder[i]), expected[i]) << i;
    }
    EXPECT_TRUE(halves.arrays().at("first") == masters.arrays().at("first"));
  }
}

TEST_P(EverySet, RoundSplitsMastersIntoWeightsAndRemainder) {
  const std::vector<float> numbers = RandomNumbers(3, 1001);
  std::vector<uint16_t> weights(1001), remainder(1001);
  TensorRow row;
  row.parameter = const_cast<float*>(numbers.data());  // The kernel only reads it.
  row.working = weights.data();
  row.remainder = remainder.data();
  row.working_format = kBf16;
  Kernels().round(row, 0, 1001);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(Join(weights[i], remainder[i]), numbers[i]);
  }
}

// The masters of a run with bf16 moments stay close to those of a run with fp32 moments, and the bf16 moments hold
// rounded values.
TEST_P(EverySet, BFloat16MomentsFollowFp32Ones) {
  HostTensor fp32(7, 1000, {.gradient = kBf16});
  HostTensor bf16(7, 1000, {.gradient = kBf16, .moments = kBf16});
  const std::vector<float> start = Numbers(fp32, "parameter", Format::kFloat32);
  for (int t = 1; t <= 20; ++t) {
    Step(t, true, fp32);
    Step(t, true, bf16);
  }
  const std::vector<float> expected = Numbers(fp32, "parameter", Format::kFloat32);
  const std::vector<float> got = Numbers(bf16, "parameter", Format::kFloat32);
  double moved = 0, apart = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    moved += std::abs(expected[i] - start[i]);
    apart += std::abs(got[i] - expected[i]);
  }
  EXPECT_LT(apart, 0.02 * moved);
  EXPECT_GT(apart, 0) << "nothing was rounded";
}

// Each update is far below half a unit in the last place of the weight. With rounding to nearest, the weight never
// moves: this is why apex-o3 and training in pure bf16 fail. With stochastic rounding, it moves on average as far as in
// fp32.
TEST_P(EverySet, StochasticRoundingIsRightInTheMeanWhereNearestLosesEverything) {
  constexpr int64_t kCount = 20'000;
  constexpr int kSteps = 64;
  constexpr float kStep = 0x1p-14f;  // 1/128 of the distance between bf16 numbers above 1.
  const auto run = [&](bool stochastic) {
    HostTensor tensor(1, kCount, {.parameter = kBf16, .stochastic = stochastic});
    tensor.SetParameter(std::vector<float>(kCount, 1.0f));
    tensor.SetGradient(std::vector<float>(kCount, -1.0f));
    TensorRow row = tensor.Row();
    row.first_moment = nullptr;
    row.learning_rate = kStep;
    row.weight_decay = 0;
    for (int t = 1; t <= kSteps; ++t) {
      Kernels().update_sgd({}, {.rounding_seed = 5, .step = t}, row, 0, kCount);
    }
    double sum = 0;
    for (const float value : Numbers(tensor, "parameter", kBf16)) {
      sum += value - 1.0;
    }
    return sum / kCount;
  };
  EXPECT_EQ(run(false), 0);
  // In each of 64 steps, an element grows by 2^-7 with probability 1/128. The standard deviation is 2^-7 * sqrt(64 *
  // 127) / 128 = 5.5e-3 for an element, and 3.9e-5 for the mean over 20000 elements. The bound is five standard
  // deviations.
  EXPECT_NEAR(run(true), kSteps * kStep, 5 * 3.9e-5);
}

TEST_P(EverySet, StochasticRoundingDependsOnSeedStepAndTensorAndOnNothingElse) {
  const auto run = [](uint64_t seed, int64_t step, uint32_t stream, int64_t cut) {
    HostTensor tensor(1, 1000, {.parameter = kBf16, .stochastic = true});
    TensorRow row = tensor.Row();
    row.number = stream;
    const StepScalars scalars{.rounding_seed = seed, .step = step};
    Kernels().update_sgd({.momentum = 0.9}, scalars, row, 0, cut);
    Kernels().update_sgd({.momentum = 0.9}, scalars, row, cut, 1000);
    return tensor.arrays().at("parameter");
  };
  const Bytes expected = run(1, 2, 3, 512);
  EXPECT_TRUE(run(1, 2, 3, 512) == expected);
  EXPECT_TRUE(run(1, 2, 3, 77) == expected) << "bits must not depend on where ranges begin";
  EXPECT_FALSE(run(9, 2, 3, 512) == expected);
  EXPECT_FALSE(run(uint64_t{1} << 32, 2, 3, 512) == expected);
  EXPECT_FALSE(run(1, 4, 3, 512) == expected);
  EXPECT_FALSE(run(1, 2, 4, 512) == expected);
}

// The share of numbers rounded up equals the discarded fraction, within five standard deviations; exact numbers stay
// unchanged.
TEST(StochasticRounding, RoundsUpAsOftenAsTheLostPartSays) {
  constexpr int64_t kCount = 1 << 16;
  for (const uint32_t lost : {0u, 1u, 0x1000u, 0x8000u, 0xffffu}) {
    const auto number = std::bit_cast<float>(0x40490000u + lost);
    double ups = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const PhiloxBlock block = RandomBlock({.rounding_seed = 3, .step = 1}, 0, i / kRandomElements);
      const uint16_t rounded = ToBFloat16Stochastic(number, RandomHalf(block, static_cast<int>(i % kRandomElements)));
      ASSERT_TRUE(rounded == 0x4049 || rounded == 0x404a);
      ups += rounded == 0x404a ? 1 : 0;
    }
    const double share = lost / 65536.0;
    EXPECT_NEAR(ups / kCount, share, 5 * std::sqrt(share * (1 - share) / kCount)) << lost;
  }
  EXPECT_EQ(ToBFloat16Stochastic(std::numeric_limits<float>::infinity(), 0xffff), 0x7f80);
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16Stochastic(std::nanf(""), 0xffff))));
}

TEST_P(EverySet, WeightsWithoutAMasterAreWidenedUpdatedAndRounded) {
  for (const Format format : {kBf16, Format::kFloat16}) {
    HostTensor tensor(4, 500, {.gradient = format, .parameter = format});
    const std::vector<float> before = Numbers(tensor, "parameter", format);
    const std::vector<float> gradient = Numbers(tensor, "gradient", format);
    TensorRow row = tensor.Row();
    row.first_moment = nullptr;
    row.learning_rate = 0.125;
    row.weight_decay = 0;
    Kernels().update_sgd({}, {}, row, 0, 500);
    const std::vector<float> after = Numbers(tensor, "parameter", format);
    for (size_t i = 0; i < after.size(); ++i) {
      const float updated = before[i] - 0.125f * gradient[i];
      ASSERT_EQ(after[i], format == kBf16 ? FromBFloat16(ToBFloat16(updated)) : FromFloat16(ToFloat16(updated)));
    }
  }
}

TEST_P(EverySet, TheAverageFollowsTheParameter) {
  HostTensor tensor(4, 100, {.gradient = kBf16, .working = kBf16, .has_working = true, .average = true});
  std::vector<float> average = Numbers(tensor, "average", Format::kFloat32);
  for (int t = 1; t <= 10; ++t) {
    Step(t, true, tensor);
    const std::vector<float> parameter = Numbers(tensor, "parameter", Format::kFloat32);
    for (size_t i = 0; i < average.size(); ++i) {
      average[i] += 0.25f * (parameter[i] - average[i]);
    }
  }
  EXPECT_EQ(Numbers(tensor, "average", Format::kFloat32), average);
}

}  // namespace
}  // namespace ampd::kernels
