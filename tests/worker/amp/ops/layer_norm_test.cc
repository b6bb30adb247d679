// Compares the layer norms that use the CUDA kernels with LibTorch's ops in fp32. The kernels' source runs here over an
// emulated CUDA on CPU tensors.
#include "worker/amp/ops/layer_norm.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "c10/util/Exception.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kEpsilon = 1e-5;
constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

executor::OpRegistry Registry(bool with_kernels) {
  std::string why;
  ComputeDevice device;
  device.cuda_kernels = with_kernels ? kernels::KernelsUnderTest(&why) : nullptr;
  executor::OpRegistry registry;
  RegisterLayerNorm(registry, device, [] { return at::zeros({1, 1}); });
  return registry;
}

// The operands of a norm and the dtypes of its results. If a norm lacks an operand, its tensor here is undefined.
struct Norm {
  at::Tensor x, y, weight, bias;
  std::vector<int64_t> shape;
  at::ScalarType sum_dtype = at::kFloat;
  at::ScalarType dtype = at::kFloat;
  bool finds_amax = false;
};

// Returns the norm with new tensors of the same numbers, which collect gradients.
Norm Leaves(const Norm& norm) {
  Norm leaves = norm;
  for (at::Tensor* const tensor : {&leaves.x, &leaves.y, &leaves.weight, &leaves.bias}) {
    *tensor = tensor->defined() ? tensor->detach().requires_grad_(true) : *tensor;
  }
  return leaves;
}

c10::IValue OrNone(const at::Tensor& tensor) { return tensor.defined() ? c10::IValue(tensor) : c10::IValue(); }

// Runs the op forward. Returns the norm's result. If the norm has two addends, their sum comes first. If the norm finds
// the amax of the result, the amax comes last.
Tensors Compute(const Norm& norm, bool with_kernels = true) {
  const bool adds = norm.y.defined();
  std::vector<c10::IValue> stack = {norm.x};
  if (adds) {
    stack.emplace_back(norm.y);
  }
  stack.insert(stack.end(), {norm.shape, OrNone(norm.weight), OrNone(norm.bias), kEpsilon});
  if (adds) {
    stack.emplace_back(static_cast<int64_t>(norm.sum_dtype));
  }
  stack.emplace_back(static_cast<int64_t>(norm.dtype));
  if (norm.finds_amax) {
    stack.emplace_back(true);
  }
  const executor::OpRegistry registry = Registry(with_kernels);
  (*registry.Find(adds ? "ampd.add_layer_norm" : "ampd.layer_norm"))(stack);
  Tensors results;
  for (const c10::IValue& value : stack) {
    results.push_back(value.toTensor());
  }
  return results;
}

// Computes the norm with LibTorch's op in fp32. The sum of x and y is rounded to `norm.sum_dtype`, but the gradient of
// this sum is not rounded.
Tensors ComputeWide(const Norm& norm) {
  const auto wide = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(at::kFloat) : tensor; };
  at::Tensor sum = wide(norm.x);
  if (norm.y.defined()) {
    sum = sum + wide(norm.y);
    sum = sum + (sum.detach().to(norm.sum_dtype).to(at::kFloat) - sum.detach());
  }
  at::Tensor result = at::layer_norm(sum, norm.shape, wide(norm.weight), wide(norm.bias), kEpsilon);
  return norm.y.defined() ? Tensors{sum, result} : Tensors{result};
}

double ToleranceOf(at::ScalarType dtype) { return dtype == at::kFloat ? 2e-5 : dtype == at::kBFloat16 ? 0.01 : 0.002; }

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, at::ScalarType dtype, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!expected.defined()) {
    return;
  }
  EXPECT_EQ(actual.scalar_type(), dtype) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const at::Tensor wide = expected.detach().to(at::kFloat);
  const at::Tensor error = (actual.detach().to(at::kFloat) - wide).abs();
  const double tolerance = ToleranceOf(dtype);
  EXPECT_TRUE((error <= tolerance * (1 + wide.abs())).all().item<bool>()) << what << " differs by " << error.max();
}

// Runs the op with its kernels and LibTorch's op in fp32, forward and backward from the same gradients. Compares all
// results and gradients.
void ExpectLikeLibTorch(const Norm& norm, const std::string& what) {
  const Norm ours = Leaves(norm), theirs = Leaves(norm);
  const Tensors results = Compute(ours), expected = ComputeWide(theirs);
  ASSERT_EQ(results.size(), expected.size()) << what;
  for (size_t i = 0; i < results.size(); ++i) {
    const at::ScalarType dtype = i + 1 == results.size() ? norm.dtype : norm.sum_dtype;
    ExpectClose(results[i], expected[i], dtype, what + ", result");
  }
  Tensors gradients, wide;
  for (const at::Tensor& result : results) {
    gradients.push_back(at::randn(result.sizes()).to(result.scalar_type()));
    wide.push_back(gradients.back().to(at::kFloat));
  }
  torch::autograd::backward(results, gradients);
  torch::autograd::backward(expected, wide);
  ExpectClose(ours.x.grad(), theirs.x.grad(), norm.x.scalar_type(), what + ", gradient of x");
  for (const auto& [mine, other, name] : {std::tuple(ours.y, theirs.y, ", gradient of y"),
                                          {ours.weight, theirs.weight, ", gradient of the weight"},
                                          {ours.bias, theirs.bias, ", gradient of the bias"}}) {
    if (mine.defined()) {
      ExpectClose(mine.grad(), other.grad(), mine.scalar_type(), what + name);
    }
  }
}

Norm RandomNorm(std::vector<int64_t> sizes, int64_t num_normalized, at::ScalarType x, std::optional<at::ScalarType> y,
                at::ScalarType weight, at::ScalarType dtype) {
  Norm norm;
  norm.x = at::randn(sizes).to(x);
  norm.y = y.has_value() ? at::randn(sizes).to(*y) : at::Tensor();
  norm.shape = {sizes.end() - num_normalized, sizes.end()};
  norm.weight = at::randn(norm.shape).to(weight);
  norm.bias = at::randn(norm.shape).to(weight);
  norm.sum_dtype = !y.has_value() || *y == x ? x : at::kFloat;
  norm.dtype = dtype;
  return norm;
}

class LayerNormTest : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(5); }
};

TEST_F(LayerNormTest, ResultsEqualLibTorchsForEveryMixOfDtypes) {
  for (const at::ScalarType x : kDtypes) {
    for (const std::optional<at::ScalarType>& y :
         {std::optional<at::ScalarType>(), {at::kFloat}, {at::kBFloat16}, {at::kHalf}}) {
      for (const at::ScalarType dtype : kDtypes) {
        for (const at::ScalarType weight : {at::kFloat, x}) {
          const std::string what = std::string("x ") + c10::toString(x) + ", y " +
                                   (y.has_value() ? c10::toString(*y) : "none") + ", weight " + c10::toString(weight) +
                                   " to " + c10::toString(dtype);
          ExpectLikeLibTorch(RandomNorm({2, 3, 16}, 1, x, y, weight, dtype), what);
        }
      }
    }
  }
}

TEST_F(LayerNormTest, ResultsEqualLibTorchsForEveryShape) {
  for (const auto& [sizes, num_normalized] : {std::pair<std::vector<int64_t>, int64_t>{{7}, 1},
                                              {{1, 1}, 1},
                                              {{2, 5, 3, 4}, 2},
                                              {{3, 4, 5}, 3},
                                              {{2, 770}, 1}}) {
    for (const std::optional<at::ScalarType>& y : {std::optional<at::ScalarType>(), {at::kBFloat16}}) {
      ExpectLikeLibTorch(RandomNorm(sizes, num_normalized, at::kFloat, y, at::kFloat, at::kBFloat16),
                         std::to_string(sizes.size()) + " dimensions");
    }
  }
}

TEST_F(LayerNormTest, WeightAndBiasMayBeAbsent) {
  for (const bool has_weight : {false, true}) {
    Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
    (has_weight ? norm.bias : norm.weight) = at::Tensor();
    ExpectLikeLibTorch(norm, "without one");
    norm.bias = norm.weight = at::Tensor();
    ExpectLikeLibTorch(norm, "without both");
  }
}

TEST_F(LayerNormTest, ViewsOfAnyLayoutAreRead) {
  Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
  norm.x = at::randn({24, 4}).t();
  norm.y = at::randn({4, 25}).to(at::kBFloat16).narrow(1, 1, 24);
  norm.weight = at::randn({25}).narrow(0, 1, 24);
  ExpectLikeLibTorch(norm, "strided");
}

// Only the gradients that autograd needs are computed.
TEST_F(LayerNormTest, OperandsWithoutGradientsGetNone) {
  for (int with = 0; with < 4; ++with) {
    const Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
    Norm ours = Leaves(norm), theirs = Leaves(norm);
    for (Norm* const one : {&ours, &theirs}) {
      const Tensors all = {one->x, one->y, one->weight, one->bias};
      for (int i = 0; i < 4; ++i) {
        all[static_cast<size_t>(i)].requires_grad_(i == with);
      }
    }
    Compute(ours)[1].sum().backward();
    ComputeWide(theirs)[1].sum().backward();
    const Tensors mine = {ours.x, ours.y, ours.weight, ours.bias};
    const Tensors others = {theirs.x, theirs.y, theirs.weight, theirs.bias};
    for (size_t i = 0; i < 4; ++i) {
      ExpectClose(mine[i].grad(), others[i].grad(), mine[i].scalar_type(), "operand " + std::to_string(i));
    }
  }
}

TEST_F(LayerNormTest, AResultThatNothingReadsNeedsNoGradient) {
  for (const size_t read : {0, 1}) {
    const Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
    const Norm ours = Leaves(norm), theirs = Leaves(norm);
    const at::Tensor factors = at::randn({4, 24}).to(at::kBFloat16).to(at::kFloat);
    (Compute(ours)[read] * factors).sum().backward();
    (ComputeWide(theirs)[read] * factors).sum().backward();
    ExpectClose(ours.x.grad(), theirs.x.grad(), at::kFloat, "x");
    ExpectClose(ours.y.grad(), theirs.y.grad(), at::kBFloat16, "y");
    ExpectClose(ours.weight.grad(), theirs.weight.grad(), at::kFloat, "weight");
  }
}

TEST_F(LayerNormTest, ATensorMayBeAddedToItself) {
  const at::Tensor x = at::randn({4, 24});
  const at::Tensor mine = x.clone().requires_grad_(true), other = x.clone().requires_grad_(true);
  Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kFloat, at::kFloat, at::kFloat);
  norm.x = norm.y = mine;
  Compute(norm)[1].square().sum().backward();
  norm.x = norm.y = other;
  ComputeWide(norm)[1].square().sum().backward();
  ExpectClose(mine.grad(), other.grad(), at::kFloat, "x");
}

TEST_F(LayerNormTest, LibTorchComputesEmptyTensorsAndWithoutKernels) {
  const Norm empty = Leaves(RandomNorm({0, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16));
  const Tensors results = Compute(empty);
  EXPECT_EQ(results[1].sizes(), at::IntArrayRef({0, 24}));
  results[1].sum().backward();
  EXPECT_TRUE(at::equal(empty.weight.grad(), at::zeros({24})));
  const Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
  const Tensors expected = ComputeWide(norm), plain = Compute(norm, /*with_kernels=*/false);
  ExpectClose(plain[0], expected[0], at::kFloat, "sum");
  ExpectClose(plain[1], expected[1], at::kBFloat16, "result");
}

// The kernels get pointers without sizes, so a shorter operand would be read behind its end.
TEST_F(LayerNormTest, OperandsWhoseSizesDoNotMatchAreAnError) {
  for (const std::optional<at::ScalarType>& y : {std::optional<at::ScalarType>(), {at::kBFloat16}}) {
    const Norm norm = RandomNorm({4, 24}, 1, at::kFloat, y, at::kFloat, at::kFloat);
    for (at::Tensor Norm::*const vector : {&Norm::weight, &Norm::bias}) {
      for (const int64_t size : {1, 23, 25}) {
        Norm wrong = norm;
        wrong.*vector = at::randn({size});
        EXPECT_THROW(Compute(wrong), c10::Error) << size;
      }
    }
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{16}, {48}, {4, 4, 24}, {24, 4}}) {
      Norm wrong = norm;
      wrong.shape = shape;
      wrong.weight = wrong.bias = at::randn(shape);
      EXPECT_THROW(Compute(wrong), c10::Error) << shape.size() << " dimensions";
    }
  }
}

TEST_F(LayerNormTest, TheAmaxIsAFurtherResultWithoutAGradient) {
  for (const bool with_kernels : {true, false}) {
    for (const bool adds : {true, false}) {
      for (const at::ScalarType dtype : kDtypes) {
        const auto y = adds ? std::optional(at::kBFloat16) : std::nullopt;
        const Norm norm = Leaves(RandomNorm({3, 5, 24}, 1, at::kFloat, y, at::kFloat, dtype));
        Norm finding = Leaves(norm);
        finding.finds_amax = true;
        const Tensors plain = Compute(norm, with_kernels), results = Compute(finding, with_kernels);
        ASSERT_EQ(results.size(), plain.size() + 1);
        const at::Tensor& amax = results.back();
        EXPECT_EQ(amax.sizes(), at::IntArrayRef({1, 1}));
        EXPECT_EQ(amax.scalar_type(), at::kFloat);
        EXPECT_FALSE(amax.requires_grad());
        EXPECT_EQ(amax.item<float>(), plain.back().abs().max().item<float>());
        const at::Tensor gradient = at::randn({3, 5, 24}).to(dtype);
        plain.back().backward(gradient);
        results[plain.size() - 1].backward(gradient);
        EXPECT_TRUE(at::equal(results[plain.size() - 1], plain.back()));
        EXPECT_TRUE(at::equal(finding.x.grad(), norm.x.grad()));
        EXPECT_TRUE(at::equal(finding.weight.grad(), norm.weight.grad()));
      }
    }
  }
  Norm empty = RandomNorm({0, 24}, 1, at::kFloat, std::nullopt, at::kFloat, at::kBFloat16);
  empty.finds_amax = true;
  EXPECT_EQ(Compute(empty)[1].item<float>(), 0);
}

TEST_F(LayerNormTest, WithoutAutogradGivesTheSameBits) {
  const Norm norm = RandomNorm({4, 24}, 1, at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16);
  const Tensors recorded = Compute(Leaves(norm));
  const at::NoGradGuard no_grad;
  const Tensors results = Compute(norm);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(results[i].requires_grad());
    EXPECT_TRUE(at::equal(results[i], recorded[i]));
  }
}

}  // namespace
}  // namespace ampd::amp
