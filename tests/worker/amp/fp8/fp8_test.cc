// Tests FP8 numbers, scales, products and layers. Most tests compare them with independent loops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/zeros.h"
#include "ATen/ops/zeros_like.h"
#include "base/random.h"
#include "c10/util/Exception.h"
#include "worker/amp/fp8/fp8_layers.h"
#include "worker/amp/fp8/fp8_linear.h"
#include "worker/amp/fp8/fp8_tensor.h"

namespace ampd::amp {
namespace {

using precision::Fp8Recipe;
using Scaling = Fp8Recipe::Scaling;

constexpr at::ScalarType kE4M3 = at::kFloat8_e4m3fn;
constexpr at::ScalarType kE5M2 = at::kFloat8_e5m2;

// Returns the value of an FP8 code by the definition of the formats (Micikevicius et al. 2022, table 1).
double Decode(int code, at::ScalarType format) {
  const int mantissa_bits = format == kE4M3 ? 3 : 2;
  const int bias = format == kE4M3 ? 7 : 15;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  if (format == kE4M3 ? (code & 0x7f) == 0x7f : exponent == 31) {
    return std::numeric_limits<double>::quiet_NaN();  // E5M2's infinities, which nothing produces, count as NaN.
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

// Rounds to the nearest number of a format, ties to the even code. Larger numbers become the format's largest.
double Nearest(double number, at::ScalarType format) {
  double best = 0;
  int best_code = 0;
  for (int code = 0; code < 128; ++code) {
    const double candidate = Decode(code, format);
    const double gain = std::abs(std::abs(number) - best) - std::abs(std::abs(number) - candidate);
    if (gain > 0 || (gain == 0 && code % 2 == 0 && best_code % 2 != 0)) {
      best = candidate;
      best_code = code;
    }
  }
  return std::copysign(best, number);
}

// A random number, at least 0 and below 1.
double Uniform(SeededRandom& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-53; }

at::Tensor Random(uint64_t seed, at::IntArrayRef sizes, double spread = 1) {
  SeededRandom random(seed);
  at::Tensor tensor = at::zeros(sizes);
  float* data = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double exponent = spread * (Uniform(random) - 0.5);
    data[i] = static_cast<float>((Uniform(random) - 0.5) * std::exp2(exponent));
  }
  return tensor;
}

Fp8Recipe RecipeOf(Scaling scaling) {
  Fp8Recipe recipe;
  recipe.scaling = scaling;
  recipe.gradient = scaling == Scaling::kBlock ? graph::Dtype::kFloat8E4M3 : graph::Dtype::kFloat8E5M2;
  recipe.canary_every_steps = 0;
  return recipe;
}

at::Tensor One() { return at::full({1, 1}, 1.0F); }

TEST(Fp8Matrix, RoundsToTheNearestNumberAndSaturates) {
  for (const at::ScalarType format : {kE4M3, kE5M2}) {
    const at::Tensor numbers = Random(1, {64, 64}, 44);
    const Fp8Matrix quantized = Quantize(numbers, One(), One(), {64, 64}, format);
    const at::Tensor back = quantized.Widened();
    int64_t num_zero = 0;
    int64_t num_largest = 0;
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      const double number = numbers.const_data_ptr<float>()[i];
      const double rounded = back.const_data_ptr<float>()[i];
      ASSERT_EQ(rounded, Nearest(number, format)) << number;
      num_zero += rounded == 0;
      num_largest += std::abs(rounded) == LargestOf(format);
    }
    EXPECT_GT(num_zero, 10);
    EXPECT_GT(num_largest, 10);
  }
}

TEST(Fp8Matrix, TiesGoToTheEvenCode) {
  // Ties of E4M3: 17 is between 16 (even code) and 18 (odd code), 19 between 18 and 20 (even code).
  const at::Tensor ties = at::arange(17, 21, 2).to(at::kFloat).reshape({1, 2});
  const at::Tensor back = Quantize(ties, One(), One(), {1, 2}, kE4M3).Widened();
  EXPECT_EQ(back[0][0].item<float>(), 16);
  EXPECT_EQ(back[0][1].item<float>(), 20);
}

TEST(Fp8Scale, FillsTheRangeAndIsAPowerOfTwoWhereTheRecipeSaysSo) {
  Fp8Recipe recipe = RecipeOf(Scaling::kCurrent);
  for (const double amax : {448.0, 1.0, 3.0, 1e-5, 1e20}) {
    const at::Tensor of = at::full({1, 1}, amax, at::kFloat);
    recipe.power_of_two_scales = false;
    EXPECT_NEAR(ScaleFor(of, kE4M3, recipe).item<float>() * amax / 448, 1, 1e-6);
    recipe.power_of_two_scales = true;
    const double scale = ScaleFor(of, kE4M3, recipe).item<float>();
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5) << amax;
    EXPECT_LE(scale * amax, 448 * (1 + 1e-6));
    EXPECT_GT(scale * amax, 224 * (1 - 1e-6));
  }
  recipe.margin = 2;
  EXPECT_EQ(ScaleFor(at::full({1, 1}, 448.0F), kE4M3, recipe).item<float>(), 0.25F);
}

TEST(Fp8Scale, OfZerosIsThatOfTheEpsilonAndOfInfinityNoNumber) {
  const Fp8Recipe recipe = RecipeOf(Scaling::kCurrent);
  EXPECT_TRUE(std::isfinite(ScaleFor(at::zeros({1, 1}), kE4M3, recipe).item<float>()));
  at::Tensor matrix = at::full({2, 2}, 1.0F);
  matrix[0][0] = std::numeric_limits<float>::infinity();
  const at::Tensor amax = AmaxOf(matrix, {2, 2});
  const Fp8Matrix hidden = Quantize(matrix, One(), amax, {2, 2}, kE4M3);
  EXPECT_TRUE(hidden.Widened().isnan().all().item<bool>()) << "saturation must not hide an overflow";
}

TEST(Fp8Blocks, EachHasItsOwnScale) {
  at::Tensor matrix = Random(2, {3, 300});
  matrix[1][200] = 1e6F;  // In the second block of the second row.
  const Fp8Block block = {1, 128};
  const at::Tensor amax = AmaxOf(matrix, block);
  ASSERT_EQ(amax.sizes(), at::IntArrayRef({3, 3}));
  const Fp8Recipe recipe = RecipeOf(Scaling::kBlock);
  const at::Tensor back = Quantize(matrix, ScaleFor(amax, kE4M3, recipe), amax, block, kE4M3).Widened();
  const auto error = [&](int64_t row, int64_t from, int64_t to) {
    const at::Tensor exact = matrix[row].slice(0, from, to);
    return back[row].slice(0, from, to).sub(exact).norm().item<float>() / exact.norm().item<float>();
  };
  EXPECT_LT(error(0, 128, 256), 0.05);
  EXPECT_LT(error(1, 0, 128), 0.05);
  EXPECT_LT(error(1, 256, 300), 0.05) << "the last block is smaller";
  EXPECT_TRUE(back[1].slice(0, 128, 200).eq(0).all().item<bool>()) << "beside a million all others are nothing";
}

TEST(Fp8Blocks, TransposedStandForTheTransposedMatrix) {
  const at::Tensor matrix = Random(3, {200, 130});
  const Fp8Block block = {1, 128};
  const at::Tensor amax = AmaxOf(matrix, block);
  const Fp8Matrix quantized = Quantize(matrix, ScaleFor(amax, kE4M3, RecipeOf(Scaling::kBlock)), amax, block, kE4M3);
  EXPECT_TRUE(at::equal(quantized.Transposed().Widened(), quantized.Widened().t()));
}

// Compares LibTorch's own FP8 product, which GPUs use, with the product of the matrices in fp32, which emulates it.
TEST(Fp8Product, OfTensorCoresIsTheEmulatedOne) {
  Fp8Recipe recipe = RecipeOf(Scaling::kCurrent);
  for (const int64_t inner : {64, 40}) {
    for (const at::ScalarType format : {kE4M3, kE5M2}) {
      const auto matrix = [&](uint64_t seed, int64_t rows, at::ScalarType in) {
        const at::Tensor numbers = Random(seed, {rows, inner}, 4);
        const at::Tensor amax = AmaxOf(numbers, {rows, inner});
        return Quantize(numbers, ScaleFor(amax, in, recipe), amax, {rows, inner}, in);
      };
      const Fp8Matrix a = matrix(4, 24, format);
      const Fp8Matrix b = matrix(5, 32, kE4M3);
      const at::Tensor emulated = ProductInFp32(a, b, std::nullopt, at::kFloat);
      const at::Tensor native = ProductOfTensorCores(a, b, std::nullopt, at::kFloat, false);
      const float error = native.sub(emulated).abs().max().item<float>() / emulated.abs().max().item<float>();
      EXPECT_LT(error, 1e-5) << inner;
    }
  }
}

// The tensor cores' product pads both matrices to 48 columns.
TEST(Fp8Product, OfMatricesWithOtherNumbersOfColumnsIsAnError) {
  const auto ones = [](int64_t columns) {
    return Quantize(at::full({32, columns}, 1.0F), One(), One(), {32, columns}, kE4M3);
  };
  for (const bool has_tensor_cores : {true, false}) {
    EXPECT_THROW(Product(ones(40), ones(48), std::nullopt, at::kFloat, false, {.tensors = has_tensor_cores}),
                 c10::Error);
  }
}

// The result and the gradients that one layer computes for a problem.
struct Computed {
  at::Tensor result;
  at::Tensor input_gradient;
  at::Tensor weight_gradient;
  at::Tensor bias_gradient;
};

struct Problem {
  at::Tensor input;     // (2, N / 2, I) bf16
  at::Tensor weight;    // (O, I) bf16
  at::Tensor bias;      // (O) bf16
  at::Tensor gradient;  // (2, N / 2, O) bf16
};

constexpr int64_t kRows = 160;
constexpr int64_t kIn = 256;
constexpr int64_t kOut = 128;

Problem MakeProblem() {
  return {Random(6, {2, kRows / 2, kIn}, 6).to(at::kBFloat16), Random(7, {kOut, kIn}, 6).to(at::kBFloat16),
          Random(8, {kOut}).to(at::kBFloat16), Random(9, {2, kRows / 2, kOut}, 12).to(at::kBFloat16)};
}

c10::intrusive_ptr<Fp8Layers> OneLayer(const Fp8Recipe& recipe) {
  return c10::make_intrusive<Fp8Layers>(recipe, std::vector<precision::Fp8Layer>{{"fc", {}}}, ComputeDevice());
}

Computed RunLayer(const c10::intrusive_ptr<Fp8Layers>& layers, const Problem& problem,
                  precision::Fp8Products products = {}) {
  executor::OpRegistry registry;
  RegisterFp8Linear(registry, layers);
  const at::Tensor input = problem.input.detach().requires_grad_(true);
  const at::Tensor weight = problem.weight.detach().requires_grad_(true);
  const at::Tensor bias = problem.bias.detach().requires_grad_(true);
  std::vector<c10::IValue> stack = {
      input, weight, bias, int64_t{0}, products.forward, products.input_gradient, products.weight_gradient};
  (*registry.Find("ampd.linear_fp8"))(stack);
  const at::Tensor result = stack[0].toTensor();
  result.backward(problem.gradient);
  return {result.detach(), input.grad(), weight.grad(), bias.grad()};
}

// Rounds a matrix to FP8 by the definition, one block at a time. A block's scale is the largest power of two with which
// the block's largest magnitude does not exceed the format's largest number.
at::Tensor InFp8(const at::Tensor& matrix, int64_t block_rows, int64_t block_columns, at::ScalarType format) {
  const at::Tensor numbers = matrix.to(at::kDouble).contiguous();
  at::Tensor back = at::zeros_like(numbers);
  const auto from = numbers.accessor<double, 2>();
  auto to = back.accessor<double, 2>();
  for (int64_t r = 0; r < numbers.size(0); r += block_rows) {
    for (int64_t c = 0; c < numbers.size(1); c += block_columns) {
      const int64_t last_row = std::min(r + block_rows, numbers.size(0));
      const int64_t last_column = std::min(c + block_columns, numbers.size(1));
      double amax = 1e-12;
      for (int64_t i = r; i < last_row; ++i) {
        for (int64_t j = c; j < last_column; ++j) {
          amax = std::max(amax, std::abs(from[i][j]));
        }
      }
      const double scale = std::exp2(std::floor(std::log2(LargestOf(format) / amax)));
      for (int64_t i = r; i < last_row; ++i) {
        for (int64_t j = c; j < last_column; ++j) {
          to[i][j] = Nearest(from[i][j] * scale, format) / scale;
        }
      }
    }
  }
  return back;
}

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  const at::Tensor wide = actual.to(at::kDouble).reshape(expected.sizes());
  const double error = wide.sub(expected).norm().item<double>() / expected.norm().item<double>();
  EXPECT_LT(error, 0.003) << what << ": rounded once to bf16, whose unit is 0.4%";
}

TEST(LinearFp8, ComputesItsThreeProductsFromNumbersInFp8) {
  const Problem problem = MakeProblem();
  const at::Tensor input = problem.input.reshape({kRows, kIn});
  const at::Tensor gradient = problem.gradient.reshape({kRows, kOut});
  for (const Scaling scaling : {Scaling::kCurrent, Scaling::kBlock}) {
    const bool block = scaling == Scaling::kBlock;
    const at::ScalarType back = block ? kE4M3 : kE5M2;
    const Computed run = RunLayer(OneLayer(RecipeOf(scaling)), problem);
    const at::Tensor weight_fp8 = InFp8(problem.weight, block ? 128 : kOut, block ? 128 : kIn, kE4M3);
    const at::Tensor input_along = InFp8(input, block ? 1 : kRows, block ? 128 : kIn, kE4M3);
    const at::Tensor input_across = InFp8(input, block ? 128 : kRows, block ? 1 : kIn, kE4M3);
    const at::Tensor gradient_along = InFp8(gradient, block ? 1 : kRows, block ? 128 : kOut, back);
    const at::Tensor gradient_across = InFp8(gradient, block ? 128 : kRows, block ? 1 : kOut, back);
    ExpectClose(run.result, input_along.mm(weight_fp8.t()).add(problem.bias.to(at::kDouble)), "result");
    ExpectClose(run.input_gradient, gradient_along.mm(weight_fp8), "input gradient");
    ExpectClose(run.weight_gradient, gradient_across.t().mm(input_across), "weight gradient");
    ExpectClose(run.bias_gradient, gradient.to(at::kDouble).sum(0), "bias gradient");
  }
}

TEST(LinearFp8, ProductsOutsideOfItAreThoseOfBf16) {
  const Problem problem = MakeProblem();
  const Computed plain = RunLayer(OneLayer(RecipeOf(Scaling::kCurrent)), problem, {false, false, false});
  const at::Tensor input = problem.input.detach().requires_grad_(true);
  const at::Tensor weight = problem.weight.detach().requires_grad_(true);
  const at::Tensor result = at::linear(input, weight, problem.bias);
  result.backward(problem.gradient);
  EXPECT_TRUE(at::equal(plain.result, result));
  EXPECT_TRUE(at::equal(plain.input_gradient, input.grad()));
  EXPECT_TRUE(at::equal(plain.weight_gradient, weight.grad()));
  const Computed mixed = RunLayer(OneLayer(RecipeOf(Scaling::kCurrent)), problem, {true, true, false});
  EXPECT_FALSE(at::equal(mixed.result, result));
  EXPECT_FALSE(at::equal(mixed.input_gradient, input.grad()));
  EXPECT_TRUE(at::equal(mixed.weight_gradient, weight.grad()));
}

// Ends a step as the engine does, first on the device (EndStep), then on the host. If it was a canary step (one that
// compares FP8 with bf16), returns its findings.
std::vector<Fp8Finding> EndStep(Fp8Layers& layers, bool applied) {
  layers.EndStep(at::full({}, !applied, at::kBool));
  return layers.Judge(!applied);
}

// Compares the scales of delayed scaling with an independent model: a history of the amaxes of the last applied steps,
// newest first.
TEST(Fp8Delayed, ScalesFollowTheAmaxesOfAppliedSteps) {
  Fp8Recipe recipe = RecipeOf(Scaling::kDelayed);
  recipe.power_of_two_scales = false;
  recipe.amax_history_length = 5;
  recipe.margin = 1;
  const auto layers = OneLayer(recipe);
  SeededRandom random(10);
  std::vector<double> history;
  for (int step = 0; step < 60; ++step) {
    const double amax = std::exp2(8 * Uniform(random) - 4);
    const bool applied = Uniform(random) < 0.8;
    layers->BeginStep(step);
    const at::Tensor matrix = at::full({4, 16}, amax, at::kFloat);
    const Fp8Matrix quantized =
        layers->Quantize(0, Fp8Operand::kInput, matrix, {.over_columns = true}, true).over_columns;
    const double seen = history.empty() ? static_cast<float>(amax) : *std::max_element(history.begin(), history.end());
    EXPECT_NEAR(quantized.inverse_scale.item<float>() * 224 / seen, 1, 1e-6) << "step " << step;
    EndStep(*layers, applied);
    if (applied) {
      history.insert(history.begin(), static_cast<float>(amax));
      history.resize(std::min<size_t>(history.size(), 5));
    }
  }
}

TEST(Fp8Delayed, AnEvaluationLeavesNoTrace) {
  const auto layers = OneLayer(RecipeOf(Scaling::kDelayed));
  layers->BeginStep(0);
  layers->Quantize(0, Fp8Operand::kInput, at::full({4, 16}, 1.0F), {.over_columns = true}, true);
  layers->Quantize(0, Fp8Operand::kInput, at::full({4, 16}, 9.0F), {.over_columns = true}, /*records=*/false);
  EndStep(*layers, true);
  EXPECT_EQ(layers->ExportState().at("fc.amax_history")[0][0].item<float>(), 1.0F);
}

Fp8Recipe WithCanary(Scaling scaling) {
  Fp8Recipe recipe = RecipeOf(scaling);
  recipe.canary_every_steps = 2;
  return recipe;
}

TEST(Fp8Canary, MeasuresErrorsOfAllThreeProductsOnItsSteps) {
  const auto layers = OneLayer(WithCanary(Scaling::kCurrent));
  for (int step = 0; step < 4; ++step) {
    layers->BeginStep(step);
    RunLayer(layers, MakeProblem());
    const std::vector<Fp8Finding> findings = EndStep(*layers, true);
    ASSERT_EQ(findings.size(), step % 2 == 0 ? 1 : 0);
    if (findings.empty()) {
      continue;
    }
    std::printf("errors of FP8 products: %.4f %.4f %.4f, underflow %.4f %.4f %.4f\n", findings[0].errors[0],
                findings[0].errors[1], findings[0].errors[2], findings[0].underflow[0], findings[0].underflow[1],
                findings[0].underflow[2]);
    for (const double error : findings[0].errors) {
      EXPECT_GT(error, 0.01) << "E4M3 has four bits";
      EXPECT_LT(error, 0.1);
    }
    EXPECT_FALSE(findings[0].demoted);
  }
}

TEST(Fp8Canary, TakesALayerOutOfFp8ThatIsOffByMoreThanTheBound) {
  const auto layers = OneLayer(WithCanary(Scaling::kCurrent));
  Problem problem = MakeProblem();
  // One number is a hundred million times as large as the others, so that with a single scale the others become zero.
  problem.input[0][0][0] = 1e8F;
  problem.weight.select(1, 0).zero_();
  layers->BeginStep(0);
  RunLayer(layers, problem);
  const std::vector<Fp8Finding> findings = EndStep(*layers, true);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_TRUE(findings[0].demoted);
  EXPECT_GT(findings[0].underflow[0], 0.9);
  const Computed after = RunLayer(layers, problem);
  EXPECT_TRUE(at::equal(after.result, at::linear(problem.input, problem.weight, problem.bias)));
  layers->BeginStep(2);
  EXPECT_TRUE(EndStep(*layers, true).empty()) << "told once";
  const auto resumed = OneLayer(WithCanary(Scaling::kCurrent));
  resumed->ImportState(layers->ExportState());
  EXPECT_TRUE(resumed->demoted(0));
}

TEST(Fp8Canary, ASkippedStepJudgesNobody) {
  const auto layers = OneLayer(WithCanary(Scaling::kCurrent));
  layers->BeginStep(0);
  RunLayer(layers, MakeProblem());
  EXPECT_TRUE(EndStep(*layers, /*applied=*/false).empty());
}

}  // namespace
}  // namespace ampd::amp
