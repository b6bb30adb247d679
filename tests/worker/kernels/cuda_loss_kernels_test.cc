// Compares the CUDA kernels for losses with plain loops in double. This file is compiled twice: over the emulated CUDA
// of this folder, and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float Rounded(float number, Format format) {
  return format == Format::kBFloat16  ? FromBFloat16(ToBFloat16(number))
         : format == Format::kFloat16 ? FromFloat16(ToFloat16(number))
                                      : number;
}

// Returns a bound on the relative error of one rounding to the format.
double Epsilon(Format format) {
  return format == Format::kFloat32 ? 0x1p-23 : format == Format::kFloat16 ? 0x1p-11 : 0x1p-8;
}

// Logits (N, V) with targets. Rows lie `gap` elements apart.
struct Problem {
  int64_t rows = 0;
  int64_t classes = 0;
  Format format = Format::kFloat32;
  int64_t gap = 0;
  int64_t padding = 0;       // The part of the gap that the backward pass sets to 0.
  size_t misaligned_by = 0;  // Offset of the first row from its alignment, in bytes.
  bool is_mean = true;
  float upstream = 3;
  std::vector<float> logits;  // (N, V)
  std::vector<int64_t> target;

  int64_t row_stride() const { return classes + gap; }
  float& At(int64_t row, int64_t c) { return logits[static_cast<size_t>(row * classes + c)]; }
  std::string Name() const {
    return std::to_string(rows) + "x" + std::to_string(classes) + " of " + NameOf(format) + ", gap " +
           std::to_string(gap) + ", misaligned by " + std::to_string(misaligned_by) + (is_mean ? ", mean" : ", sum");
  }
};

Problem RandomProblem(uint64_t seed, int64_t rows, int64_t classes, Format format) {
  Problem problem{.rows = rows, .classes = classes, .format = format};
  SeededRandom random(seed);
  for (int64_t i = 0; i < rows * classes; ++i) {
    const double uniform = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    problem.logits.push_back(Rounded(static_cast<float>(16 * uniform - 8), format));
  }
  for (int64_t row = 0; row < rows; ++row) {
    problem.target.push_back(static_cast<int64_t>(random.Next() % static_cast<uint64_t>(classes)));
  }
  return problem;
}

struct Result {
  float loss = 0;
  float num_counted = 0;
  std::vector<float> gradient;  // (N, V)
};

// The results by their definition, in double.
Result Expected(const Problem& problem) {
  Result result;
  double loss = 0;
  std::vector<double> log_sum_exp;
  for (int64_t row = 0; row < problem.rows; ++row) {
    const float* const x = problem.logits.data() + row * problem.classes;
    const double largest = *std::max_element(x, x + problem.classes);
    double sum = 0;
    for (int64_t c = 0; c < problem.classes; ++c) {
      sum += std::exp(x[c] - largest);
    }
    log_sum_exp.push_back(largest + std::log(sum));
    if (const int64_t target = problem.target[static_cast<size_t>(row)]; target != kIgnoredTarget) {
      loss += log_sum_exp.back() - x[target];
      ++result.num_counted;
    }
  }
  result.loss = static_cast<float>(problem.is_mean ? loss / result.num_counted : loss);
  const double scale = problem.upstream / (problem.is_mean ? static_cast<double>(result.num_counted) : 1.0);
  for (int64_t row = 0; row < problem.rows; ++row) {
    const int64_t target = problem.target[static_cast<size_t>(row)];
    for (int64_t c = 0; c < problem.classes; ++c) {
      const double x = problem.logits[static_cast<size_t>(row * problem.classes + c)];
      const double of_class = std::exp(x - log_sum_exp[static_cast<size_t>(row)]) - (c == target ? 1 : 0);
      result.gradient.push_back(static_cast<float>(target == kIgnoredTarget ? 0 : of_class * scale));
    }
  }
  return result;
}

// Returns the rows with `gap` elements of guard bytes behind each row.
Bytes WithGaps(const Bytes& rows, const Problem& problem) {
  const size_t row_bytes = static_cast<size_t>(problem.classes) * BytesOf(problem.format);
  Bytes spread;
  for (int64_t row = 0; row < problem.rows; ++row) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * row_bytes);
    spread.insert(spread.end(), begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
    spread.insert(spread.end(), static_cast<size_t>(problem.gap) * BytesOf(problem.format), kGuard);
  }
  return spread;
}

// Reads the rows in memory that WithGaps laid out. Of each gap, checks that the first `padding` elements are 0 and that
// the others still have their guard bytes.
std::vector<float> WithoutGaps(const Bytes& spread, const Problem& problem) {
  const size_t item = BytesOf(problem.format);
  std::vector<float> numbers;
  int64_t num_overwritten = 0;
  for (int64_t row = 0; row < problem.rows; ++row) {
    for (int64_t c = 0; c < problem.row_stride(); ++c) {
      const std::byte* const place = spread.data() + static_cast<size_t>(row * problem.row_stride() + c) * item;
      if (c >= problem.classes) {
        const std::byte expected = c < problem.classes + problem.padding ? std::byte{0} : kGuard;
        num_overwritten += std::any_of(place, place + item, [&](std::byte byte) { return byte != expected; });
        continue;
      }
      numbers.push_back(Widened(Bytes(place, place + item), problem.format).front());
    }
  }
  EXPECT_EQ(num_overwritten, 0) << problem.Name() << ": written between the rows";
  return numbers;
}

class CudaLossKernelsTest : public CudaTest {
 protected:
  // Where the gradient is written: over the logits, or into other rows of the same or of another alignment.
  enum class Into { kLogits, kOther, kOtherAlignment };

  Result Run(const Problem& problem, Into into = Into::kLogits) {
    const Bytes spread = WithGaps(Stored(problem.logits, problem.format), problem);
    const DeviceBytes logits(spread, problem.misaligned_by);
    const DeviceBytes target(BytesFrom(problem.target));
    const auto num_rows = static_cast<size_t>(problem.rows);
    const DeviceBytes log_sum_exp(BytesFrom(std::vector<float>(num_rows, kNan)));
    const DeviceBytes row_losses(BytesFrom(std::vector<float>(num_rows, kNan)));
    const DeviceBytes num_counted = DeviceBytes::Of(kNan);
    const DeviceBytes loss = DeviceBytes::Of(0.0f);
    const DeviceBytes upstream = DeviceBytes::Of(problem.upstream);
    const CudaCrossEntropy pass = {.logits = logits.as<void>(),
                                   .format = problem.format,
                                   .rows = problem.rows,
                                   .classes = problem.classes,
                                   .row_stride = problem.row_stride(),
                                   .target = target.as<int64_t>(),
                                   .is_mean = problem.is_mean,
                                   .log_sum_exp = log_sum_exp.as<float>(),
                                   .num_counted = num_counted.as<float>()};
    EXPECT_EQ(kernels_->loss->cross_entropy(&pass, row_losses.as<float>(), loss.as<float>(), nullptr), 0);
    EXPECT_EQ(logits.Read(), spread) << "the forward pass only reads";
    const size_t shift = into == Into::kOtherAlignment ? BytesOf(problem.format) : 0;
    const DeviceBytes other(Bytes(spread.size(), kGuard), problem.misaligned_by + shift);
    const DeviceBytes& gradient = into == Into::kLogits ? logits : other;
    const CudaLogitGradient written = {gradient.as<void>(), problem.row_stride(), problem.padding};
    EXPECT_EQ(kernels_->loss->cross_entropy_backward(&pass, upstream.as<float>(), written, nullptr), 0);
    return {loss.ReadAs<float>()[0], num_counted.ReadAs<float>()[0], WithoutGaps(gradient.Read(), problem)};
  }

  // Checks loss and gradient against their definition. The bound on the error of a gradient is relative to the
  // gradient. For the target it is also relative to 1, because there the gradient is the probability minus 1.
  void ExpectRight(const Problem& problem, Into into = Into::kLogits) {
    const Result expected = Expected(problem);
    const Result actual = Run(problem, into);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * std::max(1.0f, std::abs(expected.loss))) << problem.Name();
    EXPECT_EQ(actual.num_counted, expected.num_counted) << problem.Name();
    const double scale = problem.upstream / (problem.is_mean ? static_cast<double>(expected.num_counted) : 1.0);
    const double smallest = problem.format == Format::kFloat16 ? 0x1p-24 : 0;
    int64_t num_wrong = 0;
    ASSERT_EQ(actual.gradient.size(), expected.gradient.size());
    for (size_t i = 0; i < actual.gradient.size(); ++i) {
      const bool is_target = static_cast<int64_t>(i) % problem.classes ==
                             problem.target[static_cast<size_t>(static_cast<int64_t>(i) / problem.classes)];
      const double magnitude = std::abs(static_cast<double>(expected.gradient[i]));
      const double bound = magnitude * (Epsilon(problem.format) + 5e-6) + smallest + (is_target ? 5e-6 * scale : 0);
      num_wrong += !(std::abs(static_cast<double>(actual.gradient[i]) - expected.gradient[i]) <= bound);
    }
    EXPECT_EQ(num_wrong, 0) << problem.Name();
  }
};

TEST_F(CudaLossKernelsTest, LossAndGradientFollowTheirDefinitionForEveryShapeAndFormat) {
  uint64_t seed = 1;
  for (const int64_t classes : {1, 2, 7, 8, 9, 255, 2056, 4096, 4099}) {
    for (const int64_t rows : {1, 2, 5, 33}) {
      for (const Format format : kFormats) {
        Problem problem = RandomProblem(++seed, rows, classes, format);
        problem.is_mean = seed % 2 == 0;
        ExpectRight(problem);
      }
    }
  }
}

TEST_F(CudaLossKernelsTest, LossAndGradientFollowTheirDefinitionForGpt2sVocabulary) {
  for (const Format format : kFormats) {
    Problem problem = RandomProblem(7, 3, 50257, format);
    ExpectRight(problem);
    problem.gap = 47;  // Rows of 50304 elements, all aligned.
    problem.padding = 47;
    ExpectRight(problem);
  }
}

TEST_F(CudaLossKernelsTest, RowsOfAnyStrideAndAlignment) {
  uint64_t seed = 100;
  for (const int64_t gap : {0, 1, 3, 8}) {
    for (const int64_t items_off : {0, 1, 3, 7}) {
      for (const Format format : kFormats) {
        for (const Into into : {Into::kLogits, Into::kOther, Into::kOtherAlignment}) {
          Problem problem = RandomProblem(++seed, 4, 131, format);
          problem.gap = gap;
          problem.misaligned_by = static_cast<size_t>(items_off) * BytesOf(format);
          ExpectRight(problem, into);
        }
      }
    }
  }
}

TEST_F(CudaLossKernelsTest, ThePaddingOfEveryRowIsCleared) {
  uint64_t seed = 500;
  for (const int64_t padding : {1, 7, 8, 61}) {
    for (const Format format : kFormats) {
      for (const Into into : {Into::kLogits, Into::kOther, Into::kOtherAlignment}) {
        Problem problem = RandomProblem(++seed, 3, 67, format);
        problem.gap = padding + 2;
        problem.padding = padding;
        problem.target[1] = kIgnoredTarget;
        ExpectRight(problem, into);
      }
    }
  }
}

// The number of rows is larger than the number of threads in the block that sums the rows' losses.
TEST_F(CudaLossKernelsTest, TheLossIsOfAllRows) {
  Problem problem = RandomProblem(5, 1000, 3, Format::kFloat32);
  problem.target[999] = kIgnoredTarget;
  ExpectRight(problem);
}

TEST_F(CudaLossKernelsTest, IgnoredRowsCountForNothingAndAreNotRead) {
  for (const Format format : kFormats) {
    for (const bool is_mean : {true, false}) {
      Problem problem = RandomProblem(11, 9, 77, format);
      problem.is_mean = is_mean;
      for (const size_t row : {size_t{0}, size_t{4}, size_t{8}}) {
        problem.target[row] = kIgnoredTarget;
      }
      ExpectRight(problem);
      const Result before = Run(problem);
      problem.At(4, 5) = kNan;
      const Result after = Run(problem);
      EXPECT_EQ(after.loss, before.loss);
      EXPECT_EQ(after.gradient, before.gradient);
    }
  }
}

TEST_F(CudaLossKernelsTest, WithoutARowThatCountsTheMeanIsNanAndTheSumZero) {
  for (const bool is_mean : {true, false}) {
    Problem problem = RandomProblem(12, 3, 20, Format::kBFloat16);
    problem.is_mean = is_mean;
    problem.target = {kIgnoredTarget, kIgnoredTarget, kIgnoredTarget};
    const Result result = Run(problem);
    EXPECT_EQ(std::isnan(result.loss), is_mean);
    EXPECT_EQ(result.loss == 0, !is_mean);
    EXPECT_EQ(result.num_counted, 0);
    EXPECT_EQ(result.gradient, std::vector<float>(60, 0.0f));
  }
}

// If a logit is NaN or infinite, the loss and the gradient of the logit's row must be NaN. The gradients of other rows
// must not be NaN. The test tries several positions in the row.
TEST_F(CudaLossKernelsTest, NoNumberThatIsNotFiniteIsHidden) {
  for (const float poison : {kInf, kNan}) {
    for (const int64_t place : {0, 1, 8, 1000, 2100, 2101}) {
      for (const Format format : kFormats) {
        Problem problem = RandomProblem(13, 3, 2102, format);
        problem.At(1, place) = poison;
        const Result result = Run(problem);
        EXPECT_TRUE(std::isnan(result.loss)) << place;
        const auto is_nan = [](float number) { return std::isnan(number); };
        const auto row = result.gradient.begin() + problem.classes;
        EXPECT_EQ(std::count_if(row, row + problem.classes, is_nan), problem.classes) << place;
        EXPECT_EQ(std::count_if(result.gradient.begin(), result.gradient.end(), is_nan), problem.classes) << place;
      }
    }
  }
}

TEST_F(CudaLossKernelsTest, ClassesOfProbabilityZero) {
  for (const Format format : kFormats) {
    Problem problem = RandomProblem(14, 2, 300, format);
    std::fill(problem.logits.begin(), problem.logits.begin() + 200, -kInf);
    problem.target = {250, 3};
    ExpectRight(problem);
    problem.target[0] = 7;
    const Result result = Run(problem);
    EXPECT_EQ(result.loss, kInf) << "the target has probability 0";
    EXPECT_TRUE(std::all_of(result.gradient.begin(), result.gradient.end(), [](float g) { return std::isfinite(g); }));
    std::fill(problem.logits.begin(), problem.logits.begin() + 300, -kInf);
    const Result none = Run(problem);
    EXPECT_TRUE(std::isnan(none.loss)) << "no class has a probability";
    EXPECT_TRUE(std::all_of(none.gradient.begin(), none.gradient.begin() + 300, [](float g) { return std::isnan(g); }));
  }
}

TEST_F(CudaLossKernelsTest, LogitsFarFromZeroDoNotOverflow) {
  for (const Format format : kFormats) {
    for (const float offset : {-30000.0f, 30000.0f}) {
      Problem problem = RandomProblem(15, 2, 600, format);
      for (float& logit : problem.logits) {
        logit = Rounded(logit + offset, format);
      }
      const Result result = Run(problem);
      // Near 30000, fp32 numbers are 2^-9 apart, and so are the values that log_sum_exp can have. The bound allows for
      // this.
      EXPECT_NEAR(result.loss, Expected(problem).loss, 1e-2 * Expected(problem).loss) << NameOf(format) << offset;
      const auto sum = [&](int64_t row) {
        const auto begin = result.gradient.begin() + row * problem.classes;
        return std::accumulate(begin, begin + problem.classes, 0.0);
      };
      EXPECT_NEAR(sum(0), 0, 0.03 * problem.upstream) << NameOf(format) << offset;
      EXPECT_NEAR(sum(1), 0, 0.03 * problem.upstream) << NameOf(format) << offset;
    }
  }
}

TEST_F(CudaLossKernelsTest, ATargetThatIsNoClassMakesItsRowNan) {
  for (const int64_t target : {int64_t{20}, int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1} << 40}) {
    Problem problem = RandomProblem(16, 3, 20, Format::kBFloat16);
    problem.target[1] = target;
    const Result result = Run(problem);
    EXPECT_TRUE(std::isnan(result.loss)) << target;
    for (size_t i = 0; i < result.gradient.size(); ++i) {
      EXPECT_EQ(std::isnan(result.gradient[i]), i / 20 == 1) << target << ", " << i;
    }
  }
}

TEST_F(CudaLossKernelsTest, NoRowsLeaveOnlyALoss) {
  Problem problem = RandomProblem(17, 0, 20, Format::kFloat32);
  EXPECT_TRUE(std::isnan(Run(problem).loss));
  problem.is_mean = false;
  EXPECT_EQ(Run(problem).loss, 0);
}

}  // namespace
}  // namespace ampd::kernels
