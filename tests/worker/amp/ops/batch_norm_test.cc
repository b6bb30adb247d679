// Compares the fused batch norm with LibTorch's ops. Its CUDA kernels run on this machine's CPU: their source is
// compiled as C++ over an emulated CUDA.
#include "worker/amp/ops/batch_norm.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/grad_mode.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/batch_norm.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/zeros.h"
#include "c10/util/Exception.h"
#include "graph/fused_batch_norms.h"
#include "tests/worker/kernels/kernels_under_test.h"

namespace ampd::amp {
namespace {

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

struct Case {
  std::vector<int64_t> sizes;
  at::ScalarType type = at::kFloat;
  bool relu = false;
  bool adds_residual = false;
  bool affine = true;
  bool tracks = true;  // Whether the norm has running statistics.
  at::MemoryFormat layout = at::MemoryFormat::ChannelsLast;

  std::string Name() const {
    return std::string(c10::toString(type)) + (relu ? " relu" : "") + (adds_residual ? " residual" : "") +
           (affine ? "" : " not affine") + (tracks ? "" : " without statistics") + " " + std::to_string(sizes[1]);
  }
};

// The leaf tensors of one forward and backward pass, and its results.
struct Pass {
  at::Tensor input, residual, weight, bias, running_mean, running_variance, result;
  at::Tensor second;  // The second result. If the op has one result, this is the same tensor.
};

Pass LeavesFor(const Case& one) {
  const int64_t channels = one.sizes[1];
  const auto images = [&] { return at::randn(one.sizes).to(one.type).contiguous(one.layout); };
  return {.input = images().add(1.5).requires_grad_(),
          .residual = one.adds_residual ? images().requires_grad_() : at::Tensor(),
          .weight = one.affine ? at::rand({channels}).add(0.5).requires_grad_() : at::Tensor(),
          .bias = one.affine ? at::randn({channels}).requires_grad_() : at::Tensor(),
          .running_mean = one.tracks ? at::randn({channels}) : at::Tensor(),
          .running_variance = one.tracks ? at::rand({channels}) : at::Tensor(),
          .result = {},
          .second = {}};
}

at::Tensor Copied(const at::Tensor& leaf) {
  return leaf.defined() ? leaf.detach().clone().requires_grad_(leaf.requires_grad()) : leaf;
}

Pass CopyOf(const Pass& run) {
  return {.input = Copied(run.input),
          .residual = Copied(run.residual),
          .weight = Copied(run.weight),
          .bias = Copied(run.bias),
          .running_mean = Copied(run.running_mean),
          .running_variance = Copied(run.running_variance),
          .result = {},
          .second = {}};
}

std::optional<at::Tensor> OrNone(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

executor::OpRegistry Registry() {
  std::string why;
  executor::OpRegistry registry;
  RegisterBatchNorm(registry, {.cuda_kernels = kernels::KernelsUnderTest(&why)});
  return registry;
}

void RunOurs(const Case& one, Pass& run, int64_t num_results = 1) {
  const executor::OpRegistry registry = Registry();
  std::vector<c10::IValue> stack = {run.input,
                                    OrNone(run.weight),
                                    OrNone(run.bias),
                                    OrNone(run.running_mean),
                                    OrNone(run.running_variance),
                                    OrNone(run.residual),
                                    kMomentum,
                                    kEpsilon,
                                    true,
                                    one.relu,
                                    num_results};
  (*registry.Find(graph::kFusedBatchNorm))(stack);
  ASSERT_EQ(stack.size(), static_cast<size_t>(num_results));
  run.result = stack.front().toTensor();
  run.second = stack.back().toTensor();
}

void RunLibTorchs(const Case& one, Pass& run) {
  run.result = at::batch_norm(run.input, OrNone(run.weight), OrNone(run.bias), OrNone(run.running_mean),
                              OrNone(run.running_variance), /*training=*/true, kMomentum, kEpsilon, true);
  run.result = run.residual.defined() ? run.result.add(run.residual) : run.result;
  run.result = one.relu ? at::relu(run.result) : run.result;
}

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!expected.defined()) {
    return;
  }
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  EXPECT_TRUE(at::allclose(actual.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance, /*equal_nan=*/true))
      << what << " differs by " << actual.to(at::kDouble).sub(expected.to(at::kDouble)).abs().max().item<double>();
}

// Compares the results, statistics and gradients of the fused op with those of LibTorch's ops.
void ExpectLikeLibTorch(const Case& one) {
  SCOPED_TRACE(one.Name());
  Pass ours = LeavesFor(one);
  Pass theirs = CopyOf(ours);
  RunOurs(one, ours);
  RunLibTorchs(one, theirs);
  const double tolerance = one.type == at::kFloat ? 2e-5 : one.type == at::kHalf ? 4e-3 : 3e-2;
  ExpectClose(ours.result, theirs.result, tolerance, "result");
  EXPECT_EQ(ours.result.strides(), theirs.result.strides());
  ExpectClose(ours.running_mean, theirs.running_mean, 1e-5, "running mean");
  ExpectClose(ours.running_variance, theirs.running_variance, 1e-5, "running variance");
  const at::Tensor gradient = at::randn(one.sizes).to(one.type);
  // A result near 0 may be positive in one of the two runs only, so that ReLU's masks differ. The incoming gradient is
  // 0 at such elements.
  const at::Tensor masks = one.relu ? ours.result.gt(0).eq(theirs.result.gt(0)) : at::ones(one.sizes, at::kBool);
  EXPECT_GT(masks.sum().item<int64_t>(), 99 * masks.numel() / 100);
  for (Pass* const run : {&ours, &theirs}) {
    run->result.backward(gradient.mul(masks));
  }
  ExpectClose(ours.input.grad(), theirs.input.grad(), tolerance, "input gradient");
  if (one.adds_residual) {
    EXPECT_TRUE(at::equal(ours.residual.grad(), theirs.residual.grad())) << "residual gradient";
  }
  if (one.affine) {
    const double of_sums = one.type == at::kFloat ? 1e-4 : 5 * tolerance;
    ExpectClose(ours.weight.grad(), theirs.weight.grad(), of_sums, "weight gradient");
    ExpectClose(ours.bias.grad(), theirs.bias.grad(), of_sums, "bias gradient");
  }
}

TEST(BatchNorm, ResultAndGradientsEqualLibTorchs) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{4, 8, 6, 6}, {3, 5, 7, 3}, {2, 64, 3, 3}, {6, 16, 1, 1}, {2, 1, 5, 4}}) {
      for (const int what : {0, 1, 2, 3}) {
        ExpectLikeLibTorch({.sizes = sizes, .type = type, .relu = (what & 1) != 0, .adds_residual = (what & 2) != 0});
      }
    }
  }
}

TEST(BatchNorm, NeedsNeitherWeightsNorStatistics) {
  ExpectLikeLibTorch({.sizes = {4, 8, 6, 6}, .relu = true, .affine = false});
  ExpectLikeLibTorch({.sizes = {4, 8, 6, 6}, .adds_residual = true, .tracks = false});
}

TEST(BatchNorm, ImagesInOtherLayoutsArePassedToLibTorch) {
  const Case one = {.sizes = {4, 8, 6, 6}, .relu = true, .adds_residual = true, .layout = at::MemoryFormat::Contiguous};
  Pass ours = LeavesFor(one);
  Pass theirs = CopyOf(ours);
  RunOurs(one, ours);
  RunLibTorchs(one, theirs);
  for (Pass* const run : {&ours, &theirs}) {
    run->result.sum().backward();
  }
  EXPECT_TRUE(at::equal(ours.result, theirs.result));
  EXPECT_TRUE(at::equal(ours.input.grad(), theirs.input.grad()));
  EXPECT_TRUE(at::equal(ours.running_variance, theirs.running_variance));
}

// The kernels get pointers without sizes, so a shorter vector would be read, or written, behind its end.
TEST(BatchNorm, VectorsThatHaveNotOneNumberForEachChannelAreAnError) {
  const Case one = {.sizes = {4, 8, 6, 6}, .relu = true, .adds_residual = true};
  for (at::Tensor Pass::*const vector : {&Pass::weight, &Pass::bias, &Pass::running_mean, &Pass::running_variance}) {
    for (const int64_t size : {1, 7, 9}) {
      Pass pass = LeavesFor(one);
      pass.*vector = at::rand({size});
      EXPECT_THROW(RunOurs(one, pass), c10::Error) << size;
    }
  }
}

TEST(BatchNorm, TakesAGradientInAnotherLayout) {
  const Case one = {.sizes = {4, 8, 6, 6}, .relu = true, .adds_residual = true};
  Pass ours = LeavesFor(one);
  Pass again = CopyOf(ours);
  const at::Tensor gradient = at::randn(one.sizes);
  RunOurs(one, ours);
  ours.result.backward(gradient.contiguous(at::MemoryFormat::ChannelsLast));
  RunOurs(one, again);
  again.result.backward(gradient);
  EXPECT_TRUE(at::equal(ours.input.grad(), again.input.grad()));
  EXPECT_TRUE(at::equal(ours.weight.grad(), again.weight.grad()));
}

TEST(BatchNorm, GivesNoGradientWhereNoneIsNeeded) {
  const Case one = {.sizes = {4, 8, 6, 6}, .relu = true, .adds_residual = true};
  Pass ours = LeavesFor(one);
  Pass all = CopyOf(ours);
  ours.input = ours.input.detach();
  ours.weight = ours.weight.detach();
  ours.residual = ours.residual.detach();
  for (Pass* const run : {&ours, &all}) {
    RunOurs(one, *run);
    run->result.mul(run->result).sum().backward();
  }
  EXPECT_FALSE(ours.input.grad().defined());
  EXPECT_FALSE(ours.weight.grad().defined());
  EXPECT_TRUE(at::equal(ours.bias.grad(), all.bias.grad()));
}

void ExpectSameGradients(const Pass& first, const Pass& second) {
  EXPECT_TRUE(at::equal(first.result, second.result));
  EXPECT_TRUE(at::equal(first.input.grad(), second.input.grad()));
  EXPECT_TRUE(at::equal(first.residual.grad(), second.residual.grad()));
  EXPECT_TRUE(at::equal(first.weight.grad(), second.weight.grad()));
  EXPECT_TRUE(at::equal(first.bias.grad(), second.bias.grad()));
}

// If a result has two readers, autograd adds their two gradients. If each reader has a result of its own, the kernels
// add the gradients.
TEST(BatchNorm, TwoResultsGiveTheBitsOfOneResultWithTwoReaders) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 8, 6, 6}, {3, 5, 7, 3}, {2, 64, 9, 9}}) {
      for (const at::MemoryFormat layout : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
        const Case one = {.sizes = sizes, .type = type, .relu = true, .adds_residual = true, .layout = layout};
        SCOPED_TRACE(one.Name());
        Pass once = LeavesFor(one);
        Pass twice = CopyOf(once);
        RunOurs(one, once);
        RunOurs(one, twice, /*num_results=*/2);
        EXPECT_EQ(twice.result.const_data_ptr(), twice.second.const_data_ptr());
        EXPECT_EQ(twice.result.strides(), twice.second.strides());
        const at::Tensor first_gradient = at::randn(sizes).to(type), second_gradient = at::randn(sizes).to(type);
        for (Pass* const run : {&once, &twice}) {
          run->result.mul(first_gradient).sum().add(run->second.mul(second_gradient).sum()).backward();
        }
        ExpectSameGradients(once, twice);
        // The residual's gradient must be the sum of both gradients where ReLU's result is positive, and 0 elsewhere.
        const at::Tensor sum = first_gradient.add(second_gradient).mul(once.result.gt(0));
        EXPECT_TRUE(at::equal(twice.residual.grad(), sum));
      }
    }
  }
}

TEST(BatchNorm, EachOfTwoResultsMayBeUnused) {
  const Case one = {.sizes = {4, 8, 6, 6}, .type = at::kBFloat16, .relu = true, .adds_residual = true};
  Pass once = LeavesFor(one);
  Pass first = CopyOf(once), second = CopyOf(once);
  const at::Tensor gradient = at::randn(one.sizes).to(one.type);
  RunOurs(one, once);
  once.result.backward(gradient);
  RunOurs(one, first, /*num_results=*/2);
  first.result.backward(gradient);
  RunOurs(one, second, /*num_results=*/2);
  second.second.backward(gradient);
  ExpectSameGradients(once, first);
  ExpectSameGradients(once, second);
}

// Unless the norm has both a residual and a ReLU, the op returns one tensor twice, and autograd adds the gradients of
// the two results.
TEST(BatchNorm, AnyNormCanHaveTwoResults) {
  const Case one = {.sizes = {4, 8, 6, 6}, .adds_residual = true};
  Pass once = LeavesFor(one);
  Pass twice = CopyOf(once);
  RunOurs(one, once);
  RunOurs(one, twice, /*num_results=*/2);
  for (Pass* const run : {&once, &twice}) {
    run->result.sum().add(run->second.mul(3).sum()).backward();
  }
  ExpectSameGradients(once, twice);
}

TEST(BatchNorm, ANanSpreadsOverItsChannelOnly) {
  const Case one = {.sizes = {2, 4, 3, 3}, .relu = true};
  Pass ours = LeavesFor(one);
  {
    const at::NoGradGuard no_grad;
    ours.input[1][2][0][1] = std::numeric_limits<float>::quiet_NaN();
  }
  Pass theirs = CopyOf(ours);
  RunOurs(one, ours);
  RunLibTorchs(one, theirs);
  ExpectClose(ours.result, theirs.result, 1e-5, "result");
  for (Pass* const run : {&ours, &theirs}) {
    run->result.sum().backward();
  }
  EXPECT_TRUE(at::equal(ours.input.grad().isnan(), theirs.input.grad().isnan()));
  EXPECT_TRUE(ours.input.grad().isnan().any().item<bool>());
}

TEST(BatchNorm, IsNotRegisteredWithoutKernels) {
  executor::OpRegistry registry;
  RegisterBatchNorm(registry, {});
  EXPECT_EQ(registry.Find(graph::kFusedBatchNorm), nullptr);
}

}  // namespace
}  // namespace ampd::amp
