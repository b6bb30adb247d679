// Compares the CUDA kernels for layer norms with their definition (layer_norm_kernels.h), computed in double by plain
// loops. This file is compiled twice: over the emulated CUDA of this folder, and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"
#include "worker/kernels/fp8_math.h"

namespace ampd::kernels {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Format kFp32 = Format::kFloat32;
constexpr Format kBf16 = Format::kBFloat16;

// A tensor that a kernel reads. Its numbers are rounded to its format.
struct Tensor {
  Tensor(std::vector<float> given, Format stored_as)
      : format(stored_as), numbers(Widened(Stored(given, stored_as), stored_as)) {}

  Format format;
  std::vector<float> numbers;
};

std::optional<Tensor> MaybeTensor(uint64_t seed, int64_t count, std::optional<Format> format) {
  return format.has_value() ? std::optional(Tensor(RandomNumbers(seed, count, -4, 0), *format)) : std::nullopt;
}

// The shape of a norm and the format of each of its tensors. A tensor whose format has no value is absent.
struct Case {
  int64_t rows = 1;
  int64_t columns = 1;
  Format x = kFp32;
  std::optional<Format> y;
  Format sum = kFp32;
  std::optional<Format> weight = kFp32;
  std::optional<Format> bias = kFp32;
  Format result = kFp32;
  std::optional<Format> sum_gradient;
  bool is_misaligned = false;

  std::string Name() const {
    const auto name = [](std::optional<Format> format) { return format.has_value() ? NameOf(*format) : "none"; };
    return std::to_string(rows) + "x" + std::to_string(columns) + ", x " + NameOf(x) + ", y " + name(y) + ", sum " +
           NameOf(sum) + ", weight " + name(weight) + ", bias " + name(bias) + ", result " + NameOf(result) +
           ", gradient of the sum " + name(sum_gradient) + (is_misaligned ? ", misaligned" : "");
  }
};

// What the forward pass reads, and what it must write.
struct Problem {
  explicit Problem(const Case& given, uint64_t seed = 1)
      : shape(given),
        x(RandomNumbers(seed, given.rows * given.columns, -6, 2), given.x),
        y(MaybeTensor(seed + 1, given.rows * given.columns, given.y)),
        weight(MaybeTensor(seed + 2, given.columns, given.weight)),
        bias(MaybeTensor(seed + 3, given.columns, given.bias)),
        gradient(RandomNumbers(seed + 4, given.rows * given.columns, -4, 0), given.result),
        sum_gradient(MaybeTensor(seed + 5, given.rows * given.columns, given.sum_gradient)) {}

  size_t count() const { return static_cast<size_t>(shape.rows * shape.columns); }

  // x + y in fp32, rounded to the sum's format.
  std::vector<float> Sum() const {
    std::vector<float> sum = x.numbers;
    for (size_t i = 0; y.has_value() && i < sum.size(); ++i) {
      sum[i] += y->numbers[i];
    }
    return y.has_value() ? Tensor(sum, shape.sum).numbers : sum;
  }

  double WeightAt(size_t column) const {
    return weight.has_value() ? static_cast<double>(weight->numbers[column]) : 1.0;
  }

  Case shape;
  Tensor x;
  std::optional<Tensor> y, weight, bias;
  Tensor gradient;
  std::optional<Tensor> sum_gradient;
};

struct Expected {
  std::vector<double> result, mean, inverse_deviation;
};

Expected ExpectedForward(const Problem& problem) {
  const auto columns = static_cast<size_t>(problem.shape.columns);
  const std::vector<float> sum = problem.Sum();
  Expected expected;
  for (size_t first = 0; first < sum.size(); first += columns) {
    double mean = 0;
    for (size_t c = 0; c < columns; ++c) {
      mean += static_cast<double>(sum[first + c]) / static_cast<double>(columns);
    }
    double variance = 0;
    for (size_t c = 0; c < columns; ++c) {
      variance += std::pow(static_cast<double>(sum[first + c]) - mean, 2) / static_cast<double>(columns);
    }
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(kEpsilon));
    expected.mean.push_back(mean);
    expected.inverse_deviation.push_back(inverse);
    for (size_t c = 0; c < columns; ++c) {
      const double bias = problem.bias.has_value() ? static_cast<double>(problem.bias->numbers[c]) : 0.0;
      expected.result.push_back((static_cast<double>(sum[first + c]) - mean) * inverse * problem.WeightAt(c) + bias);
    }
  }
  return expected;
}

// The largest relative error of rounding to the format, with a margin of a tenth.
double RoundingOf(Format format) { return 1.1 * (format == kFp32 ? 0x1p-24 : format == kBf16 ? 0x1p-8 : 0x1p-11); }

// Checks that each element of `actual` differs from `expected` by at most `error` (the possible error of its fp32 sums)
// plus one rounding to the format.
void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, Format format,
                const std::vector<double>& error, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int64_t num_wrong = 0;
  size_t worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    constexpr double kSubnormal = 0x1p-24;
    const double allowed = error[i] + RoundingOf(format) * (std::abs(expected[i]) + error[i]) + kSubnormal;
    const bool is_wrong = !(std::abs(static_cast<double>(actual[i]) - expected[i]) <= allowed);
    worst = is_wrong && num_wrong == 0 ? i : worst;
    num_wrong += is_wrong;
  }
  EXPECT_EQ(num_wrong, 0) << what << "; first at " << worst << ": " << actual[worst] << " instead of "
                          << expected[worst];
}

// Device memory that a kernel writes, between guards. It holds NaNs at first.
class Written {
 public:
  Written(size_t count, Format format, size_t misaligned_by = 0)
      : format_(format), bytes_(Guarded(count * BytesOf(format)), misaligned_by) {}

  LayerNormResult Place() const { return {bytes_.as<std::byte>() + kGuardBytes, format_}; }
  float* Floats() const { return static_cast<float*>(Place().data); }

  Bytes Inner() const {
    const Bytes all = bytes_.Read();
    const auto guarded = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, guarded)) << "written before it";
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), guarded)) << "written behind it";
    return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
  }
  std::vector<float> Numbers() const { return Widened(Inner(), format_); }

 private:
  static Bytes Guarded(size_t size) {
    Bytes bytes(size + 2 * kGuardBytes, kGuard);
    std::fill_n(bytes.begin() + kGuardBytes, size, std::byte{0xff});
    return bytes;
  }

  Format format_;
  DeviceBytes bytes_;
};

// Device memory cannot be empty.
Bytes NotEmpty(Bytes bytes) { return bytes.empty() ? Bytes(1) : bytes; }

// Device memory that a kernel reads.
class Read {
 public:
  Read(const std::optional<Tensor>& tensor, bool is_misaligned)
      : format_(tensor.has_value() ? tensor->format : kFp32),
        is_there_(tensor.has_value()),
        bytes_(tensor.has_value() ? NotEmpty(Stored(tensor->numbers, format_)) : Bytes(1),
               is_misaligned ? BytesOf(format_) : 0) {}

  LayerNormOperand Place() const { return {is_there_ ? bytes_.as<void>() : nullptr, format_}; }

 private:
  Format format_;
  bool is_there_;
  DeviceBytes bytes_;
};

class CudaLayerNormKernelsTest : public CudaTest {
 protected:
  struct Forward {
    Bytes sum, result;
    std::vector<float> mean, inverse_deviation;
    float amax = 0;
  };
  struct Backward {
    Bytes x, y, weight, bias;
  };

  Forward RunForward(const Problem& problem, bool finds_amax = true) {
    const Case& shape = problem.shape;
    const bool off = shape.is_misaligned;
    const Read x(problem.x, off), y(problem.y, off), weight(problem.weight, off), bias(problem.bias, off);
    const Written sum(problem.count(), shape.sum, off ? BytesOf(shape.sum) : 0);
    const Written result(problem.count(), shape.result, off ? BytesOf(shape.result) : 0);
    const Written mean(static_cast<size_t>(shape.rows), kFp32), inverse(static_cast<size_t>(shape.rows), kFp32);
    const DeviceBytes amax = DeviceBytes::Of(0.0f);
    CudaLayerNorm norm{.rows = shape.rows,
                       .columns = shape.columns,
                       .epsilon = kEpsilon,
                       .x = x.Place(),
                       .y = y.Place(),
                       .weight = weight.Place(),
                       .bias = bias.Place(),
                       .sum = {},
                       .result = result.Place(),
                       .mean = mean.Floats(),
                       .inverse_deviation = inverse.Floats(),
                       .amax = finds_amax ? amax.as<float>() : nullptr};
    norm.sum = problem.y.has_value() ? sum.Place() : LayerNormResult();
    EXPECT_EQ(kernels_->layer_norm->forward(&norm, nullptr), 0);
    return {sum.Inner(), result.Inner(), mean.Numbers(), inverse.Numbers(), amax.ReadAs<float>()[0]};
  }

  // The bits of the amax of the stored result, as the FP8 kernels define it.
  static uint32_t AmaxBits(const Problem& problem, const Forward& found) {
    uint32_t amax = 0;
    for (const float number : Widened(found.result, problem.shape.result)) {
      amax = std::max(amax, MagnitudeBits(number));
    }
    return amax;
  }

  // Computes the gradient of each operand (x, y, weight, bias) in the format of that operand.
  Backward RunBackward(const Problem& problem, const Expected& moments) {
    const Case& shape = problem.shape;
    const bool off = shape.is_misaligned;
    const Read gradient(problem.gradient, off), sum(Tensor(problem.Sum(), SumFormat(shape)), off);
    const Read weight(problem.weight, off), sum_gradient(problem.sum_gradient, off);
    const DeviceBytes mean(NotEmpty(BytesFrom(Floats(moments.mean))));
    const DeviceBytes inverse(NotEmpty(BytesFrom(Floats(moments.inverse_deviation))));
    const auto columns = static_cast<size_t>(shape.columns);
    const Written of_x(problem.count(), shape.x, off ? BytesOf(shape.x) : 0);
    const Written of_y(problem.count(), shape.y.value_or(kFp32), off ? BytesOf(shape.y.value_or(kFp32)) : 0);
    const Written of_weight(columns, shape.weight.value_or(kFp32)), of_bias(columns, shape.bias.value_or(kFp32));
    const Written partials(static_cast<size_t>(kLayerNormPartials) * 2 * columns, kFp32, off ? sizeof(float) : 0);
    CudaLayerNormBackward norm{.rows = shape.rows,
                               .columns = shape.columns,
                               .gradient = gradient.Place(),
                               .sum = sum.Place(),
                               .weight = weight.Place(),
                               .sum_gradient = sum_gradient.Place(),
                               .mean = mean.as<float>(),
                               .inverse_deviation = inverse.as<float>(),
                               .x_gradient = of_x.Place(),
                               .y_gradient = shape.y.has_value() ? of_y.Place() : LayerNormResult(),
                               .weight_gradient = shape.weight.has_value() ? of_weight.Place() : LayerNormResult(),
                               .bias_gradient = shape.bias.has_value() ? of_bias.Place() : LayerNormResult(),
                               .partials = partials.Floats()};
    EXPECT_EQ(kernels_->layer_norm->backward(&norm, nullptr), 0);
    partials.Inner();
    return {of_x.Inner(), of_y.Inner(), of_weight.Inner(), of_bias.Inner()};
  }

  static Format SumFormat(const Case& shape) { return shape.y.has_value() ? shape.sum : shape.x; }

  static std::vector<float> Floats(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

  static void ExpectForward(const Problem& problem, const Expected& expected, const Forward& found) {
    const Case& shape = problem.shape;
    const auto columns = static_cast<size_t>(shape.columns);
    if (problem.y.has_value()) {
      EXPECT_EQ(found.sum, Stored(problem.Sum(), shape.sum)) << shape.Name();
    }
    std::vector<double> error(problem.count());
    for (size_t i = 0; i < error.size(); ++i) {
      const double scale = expected.inverse_deviation[i / columns] * (8 + std::abs(expected.mean[i / columns]));
      error[i] = 1e-6 * (scale * std::abs(problem.WeightAt(i % columns)) + 1);
    }
    ExpectNear(Widened(found.result, shape.result), expected.result, shape.result, error, shape.Name());
    const std::vector<double> of_mean(expected.mean.size(), 2e-6);
    ExpectNear(found.mean, expected.mean, kFp32, of_mean, shape.Name() + ", mean");
    std::vector<double> of_inverse;
    for (const double inverse : expected.inverse_deviation) {
      of_inverse.push_back(1e-5 * inverse);
    }
    ExpectNear(found.inverse_deviation, expected.inverse_deviation, kFp32, of_inverse, shape.Name() + ", deviation");
    EXPECT_EQ(std::bit_cast<uint32_t>(found.amax), AmaxBits(problem, found)) << shape.Name() << ", amax";
  }

  // Checks the gradients against their definition. Mean and deviation are those that the kernel was given.
  static void ExpectBackward(const Problem& problem, const Expected& moments, const Backward& found) {
    const Case& shape = problem.shape;
    const auto rows = static_cast<size_t>(shape.rows);
    const auto columns = static_cast<size_t>(shape.columns);
    const std::vector<float> sum = problem.Sum();
    const std::vector<float> means = Floats(moments.mean), inverses = Floats(moments.inverse_deviation);
    std::vector<double> of_x, of_weight(columns), of_bias(columns), error, error_of_weight(columns);
    for (size_t r = 0; r < rows; ++r) {
      const auto inverse = static_cast<double>(inverses[r]);
      const auto normalized = [&](size_t c) {
        return (static_cast<double>(sum[r * columns + c]) - static_cast<double>(means[r])) * inverse;
      };
      const auto gradient = [&](size_t c) { return static_cast<double>(problem.gradient.numbers[r * columns + c]); };
      double mean = 0, mean_of_products = 0, largest = 0;
      for (size_t c = 0; c < columns; ++c) {
        const double weighted = gradient(c) * problem.WeightAt(c);
        mean += weighted / static_cast<double>(columns);
        mean_of_products += weighted * normalized(c) / static_cast<double>(columns);
        largest = std::max(largest, std::abs(normalized(c)));
        of_weight[c] += gradient(c) * normalized(c);
        error_of_weight[c] += 1e-6 * (1 + std::abs(gradient(c) * normalized(c)));
        of_bias[c] += gradient(c);
      }
      for (size_t c = 0; c < columns; ++c) {
        const size_t i = r * columns + c;
        const double given =
            problem.sum_gradient.has_value() ? static_cast<double>(problem.sum_gradient->numbers[i]) : 0.0;
        of_x.push_back(inverse * (gradient(c) * problem.WeightAt(c) - mean - normalized(c) * mean_of_products) + given);
        error.push_back(2e-6 * (1 + inverse * (4 + largest * std::abs(mean_of_products) + largest)));
      }
    }
    ExpectNear(Widened(found.x, shape.x), of_x, shape.x, error, shape.Name() + ", x");
    if (shape.y.has_value()) {
      ExpectNear(Widened(found.y, *shape.y), of_x, *shape.y, error, shape.Name() + ", y");
    }
    if (shape.weight.has_value()) {
      ExpectNear(Widened(found.weight, *shape.weight), of_weight, *shape.weight, error_of_weight,
                 shape.Name() + ", weight");
    }
    if (shape.bias.has_value()) {
      const std::vector<double> error_of_bias(columns, 1e-6 * static_cast<double>(rows));
      ExpectNear(Widened(found.bias, *shape.bias), of_bias, *shape.bias, error_of_bias, shape.Name() + ", bias");
    }
  }

  void ExpectRight(const Case& shape, uint64_t seed = 1) {
    const Problem problem(shape, seed);
    const Expected expected = ExpectedForward(problem);
    ExpectForward(problem, expected, RunForward(problem));
    ExpectBackward(problem, expected, RunBackward(problem, expected));
  }
};

// Returns a case with these formats. The sum has the format of x or, if y has another format, fp32.
Case WithFormats(Case shape, Format x, std::optional<Format> y, Format result) {
  shape.x = x;
  shape.y = y;
  shape.result = result;
  shape.sum = !y.has_value() || *y == x ? x : kFp32;
  return shape;
}

TEST_F(CudaLayerNormKernelsTest, EveryShape) {
  uint64_t seed = 1;
  for (const int64_t columns : {1, 2, 5, 8, 64, 255, 256, 257, 768, 1600, 4096, 4097, 4104}) {
    // The emulated CUDA is slow if rows are long. So for long rows, only matrices of 1, 5 and 9 rows are tried.
    for (int64_t rows = 1; rows <= 9; rows += columns < 1600 ? 1 : 4) {
      const Format x = kFormats[seed % 3];
      const std::optional<Format> y = rows % 2 == 0 ? std::nullopt : std::optional(kFormats[rows % 3]);
      Case shape = WithFormats({.rows = rows, .columns = columns}, x, y, kFormats[(seed / 3) % 3]);
      shape.sum_gradient = rows % 3 == 0 ? std::nullopt : std::optional(shape.sum);
      ExpectRight(shape, ++seed);
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, EveryPairOfFormats) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 64}, {2, 37}}) {
    for (const Format x : kFormats) {
      for (const std::optional<Format>& y : {std::optional<Format>(), {kFp32}, {kBf16}, {Format::kFloat16}}) {
        for (const Format result : kFormats) {
          Case shape = WithFormats({.rows = rows, .columns = columns}, x, y, result);
          shape.sum_gradient = shape.sum;
          ExpectRight(shape);
          shape.sum = kFp32;
          shape.weight = shape.bias = x;
          ExpectRight(shape);
        }
      }
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, EveryPairOfFormatsInLongRows) {
  for (const Format x : kFormats) {
    for (const std::optional<Format>& y : {std::optional<Format>(), {kFp32}, {kBf16}, {Format::kFloat16}}) {
      Case shape = WithFormats({.rows = 2, .columns = 4100}, x, y, y.value_or(kBf16));
      shape.sum_gradient = shape.sum;
      ExpectRight(shape);
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, WeightAndBiasMayBeAbsent) {
  for (const int64_t columns : {24, 4097}) {
    for (const std::optional<Format>& weight : {std::optional<Format>(), {kFp32}}) {
      for (const std::optional<Format>& bias : {std::optional<Format>(), {kBf16}}) {
        ExpectRight({.rows = 5, .columns = columns, .weight = weight, .bias = bias, .result = kBf16});
      }
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, AddressesNeedNoAlignment) {
  for (const int64_t columns : {64, 768, 4104}) {
    for (const Format format : kFormats) {
      ExpectRight({.rows = 4,
                   .columns = columns,
                   .x = format,
                   .y = format,
                   .sum = format,
                   .weight = format,
                   .bias = format,
                   .result = format,
                   .sum_gradient = format,
                   .is_misaligned = true});
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, MoreRowsThanBlocks) {
  ExpectRight({.rows = 2 * kLayerNormPartials + 5, .columns = 4096, .x = kBf16, .result = kBf16});
  ExpectRight({.rows = kLayerNormPartials + 3, .columns = 4097, .x = kBf16, .result = kBf16});
  ExpectRight(
      {.rows = 5 * kLayerNormPartials + 11, .columns = 768, .y = kBf16, .result = kBf16, .sum_gradient = kFp32});
}

TEST_F(CudaLayerNormKernelsTest, LongRows) { ExpectRight({.rows = 2, .columns = 16384, .y = kBf16, .result = kBf16}); }

TEST_F(CudaLayerNormKernelsTest, GiveTheSameBitsAgain) {
  const Problem problem({.rows = 700, .columns = 320, .y = kBf16, .result = kBf16, .sum_gradient = kFp32});
  const Expected moments = ExpectedForward(problem);
  const Forward forward = RunForward(problem);
  const Forward forward_again = RunForward(problem);
  EXPECT_EQ(forward.result, forward_again.result);
  EXPECT_EQ(forward.mean, forward_again.mean);
  const Backward backward = RunBackward(problem, moments);
  const Backward backward_again = RunBackward(problem, moments);
  EXPECT_EQ(backward.x, backward_again.x);
  EXPECT_EQ(backward.y, backward_again.y);
  EXPECT_EQ(backward.weight, backward_again.weight);
  EXPECT_EQ(backward.bias, backward_again.bias);
}

// Some shapes need one group of thread blocks, others need several. Rows of 4100 columns do not fit into the registers
// of a team of threads; the other rows do.
TEST_F(CudaLayerNormKernelsTest, TheOrderOfTheBlocks_ChangesNoBit_AndOneLaunchDoesAll) {
  for (const Case& shape : {Case{.rows = 3, .columns = 16}, Case{.rows = 200, .columns = 768},
                            Case{.rows = 2 * kLayerNormPartials, .columns = 768}, Case{.rows = 40, .columns = 4100}}) {
    const Problem problem(shape);
    const Expected moments = ExpectedForward(problem);
    Backward backwards;
    const int64_t num_launches = RunBackwards([&] { backwards = RunBackward(problem, moments); });
    EXPECT_LE(num_launches, 1);
    const Backward forwards = RunBackward(problem, moments);
    EXPECT_EQ(forwards.weight, backwards.weight) << shape.Name();
    EXPECT_EQ(forwards.bias, backwards.bias) << shape.Name();
    EXPECT_EQ(forwards.x, backwards.x) << shape.Name();
  }
}

TEST_F(CudaLayerNormKernelsTest, ARowWithANumberThatIsNotFiniteIsAllNan) {
  for (const int64_t columns : {40, 4097}) {
    for (const float poison : {kInf, -kInf, std::nanf("")}) {
      Problem problem({.rows = 5, .columns = columns});
      const Forward clean = RunForward(problem);
      problem.x.numbers[static_cast<size_t>(2 * columns + 3)] = poison;
      const Forward poisoned = RunForward(problem);
      const std::vector<float> before = Widened(clean.result, kFp32), after = Widened(poisoned.result, kFp32);
      int64_t num_wrong = 0;
      for (size_t i = 0; i < after.size(); ++i) {
        const bool is_poisoned = static_cast<int64_t>(i) / columns == 2;
        num_wrong += is_poisoned ? !std::isnan(after[i]) : after[i] != before[i];
      }
      EXPECT_EQ(num_wrong, 0) << poison << " in a row of " << columns;
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, AGradientThatIsNotFiniteReachesItsRowAndItsColumnsOnly) {
  for (const int64_t columns : {40, 4097}) {
    for (const float poison : {kInf, std::nanf("")}) {
      Problem problem({.rows = 5, .columns = columns});
      const Expected moments = ExpectedForward(problem);
      const Backward clean = RunBackward(problem, moments);
      problem.gradient.numbers[static_cast<size_t>(2 * columns + 3)] = poison;
      const Backward poisoned = RunBackward(problem, moments);
      const std::vector<float> before = Widened(clean.x, kFp32), after = Widened(poisoned.x, kFp32);
      int64_t num_wrong = 0;
      for (size_t i = 0; i < after.size(); ++i) {
        const bool is_poisoned = static_cast<int64_t>(i) / columns == 2;
        num_wrong += is_poisoned ? IsFinite(after[i]) : after[i] != before[i];
      }
      const std::vector<float> weight_before = Widened(clean.weight, kFp32),
                               weight_after = Widened(poisoned.weight, kFp32);
      for (size_t c = 0; c < weight_after.size(); ++c) {
        num_wrong += c == 3 ? IsFinite(weight_after[c]) : weight_after[c] != weight_before[c];
      }
      EXPECT_EQ(num_wrong, 0) << poison << " in a row of " << columns;
    }
  }
}

TEST_F(CudaLayerNormKernelsTest, TheAmaxIsThatOfTheStoredResult_InfinitiesAndNansIncluded) {
  for (const int64_t columns : {40, 768, 4097}) {
    for (const Format result : kFormats) {
      for (const float poison : {0.0f, kInf, std::nanf("")}) {
        Problem problem({.rows = 5, .columns = columns, .y = kBf16, .result = result});
        problem.x.numbers[static_cast<size_t>(2 * columns + 3)] = poison;
        const Forward found = RunForward(problem);
        EXPECT_EQ(std::bit_cast<uint32_t>(found.amax), AmaxBits(problem, found)) << poison << problem.shape.Name();
        EXPECT_EQ(std::isfinite(found.amax), std::isfinite(poison)) << problem.shape.Name();
        problem.weight->numbers[7] = 3e38f;
        const Forward large = RunForward(problem);
        EXPECT_EQ(std::bit_cast<uint32_t>(large.amax), AmaxBits(problem, large)) << poison << problem.shape.Name();
      }
    }
  }
}

// A thread holds zeros behind the end of its row. Normalized, they would be far larger than the numbers of the row.
TEST_F(CudaLayerNormKernelsTest, TheAmaxIsOfTheRowsNumbersOnly) {
  for (const int64_t columns : {5, 4097}) {
    Problem problem({.rows = 3, .columns = columns, .weight = {}, .bias = {}});
    for (float& number : problem.x.numbers) {
      number += 1000;
    }
    const Forward found = RunForward(problem);
    EXPECT_EQ(std::bit_cast<uint32_t>(found.amax), AmaxBits(problem, found)) << problem.shape.Name();
  }
}

TEST_F(CudaLayerNormKernelsTest, WithoutAnAmax_GivesTheSameBitsInOneLaunch) {
  for (const int64_t columns : {40, 4097}) {
    const Problem problem({.rows = 5, .columns = columns, .y = kBf16, .result = kBf16});
    Forward with, without;
    EXPECT_LE(RunBackwards([&] { with = RunForward(problem); }), 1);
    EXPECT_LE(RunBackwards([&] { without = RunForward(problem, /*finds_amax=*/false); }), 1);
    EXPECT_EQ(with.result, without.result);
    EXPECT_EQ(with.sum, without.sum);
    EXPECT_EQ(without.amax, 0);
  }
}

TEST_F(CudaLayerNormKernelsTest, NoRowsGiveNoResultsAndGradientsOfZero) {
  const Problem problem({.rows = 0, .columns = 24});
  EXPECT_EQ(RunForward(problem).amax, 0);
  for (const int64_t columns : {24, 4104}) {
    const Backward found = RunBackward(Problem({.rows = 0, .columns = columns}), {});
    EXPECT_EQ(Widened(found.weight, kFp32), std::vector<float>(static_cast<size_t>(columns), 0.0f));
    EXPECT_EQ(Widened(found.bias, kFp32), std::vector<float>(static_cast<size_t>(columns), 0.0f));
  }
}

}  // namespace
}  // namespace ampd::kernels
