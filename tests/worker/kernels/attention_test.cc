#include "worker/kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/kernels/row_fixtures.h"
#include "tests/worker/tolerances.h"
#include "worker/kernels/cpu/formats.h"

namespace ampd::kernels {
namespace {

constexpr uint16_t kGuardHalf = 0xa5a5;

// A matrix (T, D) of bf16 in memory. Rows begin `stride` numbers apart, with guards between and after them.
class Matrix {
 public:
  Matrix(const AttentionShape& shape, int64_t stride)
      : shape_(shape), stride_(stride), memory_(static_cast<size_t>(shape.length * stride), kGuardHalf) {}

  static Matrix Random(const AttentionShape& shape, int64_t stride, uint64_t seed) {
    Matrix matrix(shape, stride);
    const std::vector<float> numbers = RandomNumbers(seed, shape.length * shape.width, -4, 0);
    for (int64_t t = 0; t < shape.length; ++t) {
      for (int64_t d = 0; d < shape.width; ++d) {
        matrix.At(t, d) = ToBFloat16(numbers[static_cast<size_t>(t * shape.width + d)]);
      }
    }
    return matrix;
  }

  uint16_t& At(int64_t t, int64_t d) { return memory_[static_cast<size_t>(t * stride_ + d)]; }
  double Value(int64_t t, int64_t d) const { return FromBFloat16(memory_[static_cast<size_t>(t * stride_ + d)]); }
  Head head() { return {memory_.data(), stride_}; }
  ConstHead head() const { return {memory_.data(), stride_}; }

  bool GuardsAreWhole() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (static_cast<int64_t>(i) % stride_ >= shape_.width && memory_[i] != kGuardHalf) {
        return false;
      }
    }
    return true;
  }

 private:
  AttentionShape shape_;
  int64_t stride_;
  std::vector<uint16_t> memory_;
};

// Computes attention and its gradients by the definition, in double.
class Reference {
 public:
  Reference(const AttentionShape& shape, const Matrix& query, const Matrix& key, const Matrix& value,
            const Matrix& gradient)
      : shape_(shape), size_(static_cast<size_t>(shape.length)) {
    const size_t width = static_cast<size_t>(shape.width);
    for (Rows* rows : {&result, &query_gradient, &key_gradient, &value_gradient}) {
      *rows = Rows(size_, std::vector<Sum>(width));
    }
    for (size_t t = 0; t < size_; ++t) {
      AddQuery(t, query, key, value, gradient);
    }
  }

  // A sum, and the sum of the magnitudes of its terms, to which the possible rounding error is proportional.
  struct Sum {
    double value = 0, magnitude = 0;
  };
  using Rows = std::vector<std::vector<Sum>>;
  Rows result, query_gradient, key_gradient, value_gradient;
  std::vector<double> log_sums;

 private:
  double Product(const Matrix& a, size_t row_of_a, const Matrix& b, size_t row_of_b) const {
    double sum = 0;
    for (int64_t d = 0; d < shape_.width; ++d) {
      sum += a.Value(static_cast<int64_t>(row_of_a), d) * b.Value(static_cast<int64_t>(row_of_b), d);
    }
    return sum;
  }

  static void Add(const Sum& factor, const Matrix& from, size_t row, std::vector<Sum>& to) {
    for (size_t d = 0; d < to.size(); ++d) {
      const double value = from.Value(static_cast<int64_t>(row), static_cast<int64_t>(d));
      to[d].value += factor.value * value;
      to[d].magnitude += factor.magnitude * std::abs(value);
    }
  }

  void AddQuery(size_t t, const Matrix& query, const Matrix& key, const Matrix& value, const Matrix& gradient) {
    const size_t num_keys = shape_.is_causal ? t + 1 : size_;
    std::vector<double> weights(num_keys), weight_gradients(num_keys);
    double sum = 0;
    for (size_t n = 0; n < num_keys; ++n) {
      weights[n] = std::exp(shape_.scale * Product(query, t, key, n));
      sum += weights[n];
    }
    log_sums.push_back(std::log(sum));
    double delta = 0;
    for (size_t n = 0; n < num_keys; ++n) {
      weights[n] /= sum;
      weight_gradients[n] = Product(gradient, t, value, n);
      delta += weights[n] * weight_gradients[n];
    }
    for (size_t n = 0; n < num_keys; ++n) {
      const double factor = shape_.scale * weights[n];
      const Sum score_gradient = {factor * (weight_gradients[n] - delta),
                                  factor * (std::abs(weight_gradients[n]) + std::abs(delta))};
      Add({weights[n], weights[n]}, value, n, result[t]);
      Add({weights[n], weights[n]}, gradient, t, value_gradient[n]);
      Add(score_gradient, key, n, query_gradient[t]);
      Add(score_gradient, query, t, key_gradient[n]);
    }
  }

  const AttentionShape shape_;
  const size_t size_;
};

// Returns the largest error of an element, divided by the largest sum of the magnitudes of an element's terms.
double ErrorOf(const Matrix& got, const Reference::Rows& expected) {
  double error = 0, largest = 0;
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t d = 0; d < expected[t].size(); ++d) {
      const double value = got.Value(static_cast<int64_t>(t), static_cast<int64_t>(d));
      if (std::isnan(value)) {
        return std::numeric_limits<double>::infinity();
      }
      error = std::max(error, std::abs(value - expected[t][d].value));
      largest = std::max(largest, expected[t][d].magnitude);
    }
  }
  return error / largest;
}

// Scratch memory whose bytes are NaN in any format.
class ScratchMemory {
 public:
  explicit ScratchMemory(size_t bytes) : lines_(bytes / sizeof(Line)) {
    EXPECT_EQ(bytes % sizeof(Line), 0u);
    std::memset(lines_.data(), 0xff, bytes);
  }
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines_;
};

struct Passes {
  Passes(const AttentionKernels& kernels, const AttentionShape& shape, int64_t extra)
      : query(Matrix::Random(shape, shape.width + extra, 1)),
        key(Matrix::Random(shape, shape.width + 2 * extra, 2)),
        value(Matrix::Random(shape, shape.width + extra, 3)),
        gradient(Matrix::Random(shape, shape.width + extra, 4)),
        result(shape, shape.width + extra),
        query_gradient(shape, shape.width + extra),
        key_gradient(shape, shape.width + extra),
        value_gradient(shape, shape.width + extra),
        log_sums(static_cast<size_t>(shape.length)),
        kernels_(kernels),
        shape_(shape) {}

  void Run() {
    const AttentionInputs inputs = {std::as_const(query).head(), std::as_const(key).head(),
                                    std::as_const(value).head()};
    ScratchMemory forward(kernels_.forward_scratch_bytes(shape_));
    kernels_.forward(shape_, inputs, result.head(), log_sums.data(), forward.data());
    ScratchMemory backward(kernels_.backward_scratch_bytes(shape_));
    kernels_.backward(shape_, inputs, {std::as_const(result).head(), log_sums.data(), std::as_const(gradient).head()},
                      {query_gradient.head(), key_gradient.head(), value_gradient.head()}, backward.data());
  }

  Matrix query, key, value, gradient, result, query_gradient, key_gradient, value_gradient;
  std::vector<float> log_sums;

 private:
  const AttentionKernels& kernels_;
  const AttentionShape shape_;
};

class Attention : public testing::Test {
 protected:
  void SetUp() override {
    if (BestAttention() == nullptr) {
      GTEST_SKIP() << "this CPU has no products of bf16";
    }
  }
};

TEST_F(Attention, EqualsItsDefinitionForEveryShapeThatBlocksAndTilesLeaveARestOf) {
  for (const bool is_causal : {false, true}) {
    for (const int64_t width : {32, 64, 96, 128}) {
      for (const int64_t length : {1, 2, 3, 15, 16, 17, 63, 64, 65, 66, 127, 130, 193}) {
        const AttentionShape shape{.length = length, .width = width, .scale = 0.25f, .is_causal = is_causal};
        Passes passes(*BestAttention(), shape, length % 4);
        passes.Run();
        const Reference expected(shape, passes.query, passes.key, passes.value, passes.gradient);
        const std::string what =
            std::to_string(length) + "x" + std::to_string(width) + (is_causal ? ", causal" : ", full");
        const double rounding = ToleranceOf("bf16").rounding;  // Rounding error of attention weights and results.
        EXPECT_LT(ErrorOf(passes.result, expected.result), rounding) << what;
        EXPECT_LT(ErrorOf(passes.query_gradient, expected.query_gradient), 2 * rounding) << what;
        EXPECT_LT(ErrorOf(passes.key_gradient, expected.key_gradient), 2 * rounding) << what;
        EXPECT_LT(ErrorOf(passes.value_gradient, expected.value_gradient), 2 * rounding) << what;
        for (size_t t = 0; t < expected.log_sums.size(); ++t) {
          EXPECT_NEAR(passes.log_sums[t], expected.log_sums[t], 1e-5 * (1 + std::abs(expected.log_sums[t]))) << what;
        }
        for (const Matrix* written :
             {&passes.result, &passes.query_gradient, &passes.key_gradient, &passes.value_gradient}) {
          EXPECT_TRUE(written->GuardsAreWhole()) << what;
        }
      }
    }
  }
}

TEST_F(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape shape{.length = 70, .width = 32, .scale = 1000, .is_causal = true};
  Passes passes(*BestAttention(), shape, 0);
  passes.Run();
  for (int64_t t = 0; t < shape.length; ++t) {
    ASSERT_TRUE(std::isfinite(passes.log_sums[static_cast<size_t>(t)])) << t;
    for (int64_t d = 0; d < shape.width; ++d) {
      ASSERT_TRUE(std::isfinite(passes.result.Value(t, d))) << t;
      ASSERT_TRUE(std::isfinite(passes.query_gradient.Value(t, d))) << t;
    }
  }
}

// A number that is not finite must reach the gradients, where the engine checks for it. In a causal model it must not
// reach earlier positions.
TEST_F(Attention, ANumberThatIsNotFiniteReachesWhatDependsOnItAndNothingElse) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const AttentionShape shape{.length = 100, .width = 64, .scale = 0.125f, .is_causal = true};
    Passes passes(*BestAttention(), shape, 0);
    passes.key.At(70, 5) = ToBFloat16(bad);
    passes.Run();
    EXPECT_TRUE(std::isfinite(passes.result.Value(69, 0)));
    int num_bad = 0;
    for (int64_t t = 70; t < shape.length; ++t) {
      num_bad += std::isnan(passes.result.Value(t, 0)) ? 1 : 0;
    }
    // An infinite key makes the scores of the queries infinite. For about half of the queries the score is minus
    // infinity: then the key's weight is zero, and the query's result stays finite.
    EXPECT_GE(num_bad, std::isnan(bad) ? 30 : 5);
    EXPECT_TRUE(std::isnan(passes.key_gradient.Value(70, 0)));
    EXPECT_TRUE(std::isnan(passes.query_gradient.Value(99, 5)));
  }
}

}  // namespace
}  // namespace ampd::kernels
