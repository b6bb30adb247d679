// Compares the cross entropies that use ampd's CUDA kernels with LibTorch's. The kernels' source runs here over an
// emulated CUDA on CPU tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/cross_entropy_loss.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "c10/util/Exception.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/ops/cross_entropy.h"
#include "worker/amp/ops/linear_cross_entropy.h"

namespace ampd::amp {
namespace {

constexpr int64_t kMean = 1;
constexpr int64_t kSum = 2;
constexpr int64_t kClasses = 4099;
constexpr int64_t kRows = 9;
constexpr double kLossScale = 64;
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

at::Tensor Call(const char* op, std::vector<c10::IValue> stack) {
  std::string why;
  ComputeDevice device;
  device.cuda_kernels = kernels::KernelsUnderTest(&why);
  executor::OpRegistry registry;
  RegisterCrossEntropy(registry, device);
  RegisterLinearCrossEntropy(registry, device);
  (*registry.Find(op))(stack);
  return stack.at(0).toTensor();
}

at::Tensor LossOf(const at::Tensor& logits, const at::Tensor& target, int64_t reduction) {
  return Call("ampd.cross_entropy", {logits, target, reduction});
}

at::Tensor LibTorchs(const at::Tensor& logits, const at::Tensor& target, int64_t reduction) {
  return at::cross_entropy_loss(logits.to(at::kFloat), target, /*weight=*/{}, reduction);
}

at::Tensor RandomTarget(int64_t rows, int64_t classes) { return at::randint(classes, {rows}, at::kLong); }

struct Pass {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;  // One for each leaf.
};

// Runs `loss_of` on copies of the starting values, forward and backward.
template <typename Loss>
Pass BothPasses(const std::vector<at::Tensor>& start, const Loss& loss_of) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& one : start) {
    leaves.push_back(one.detach().requires_grad_());
  }
  const at::Tensor loss = loss_of(leaves);
  loss.mul(kLossScale).backward();
  Pass pass = {loss.detach(), {}};
  for (const at::Tensor& leaf : leaves) {
    pass.gradients.push_back(leaf.grad());
  }
  return pass;
}

// Returns a bound on the relative error of one rounding to the type.
double Epsilon(at::ScalarType type) { return type == at::kFloat ? 0x1p-23 : type == at::kHalf ? 0x1p-10 : 0x1p-7; }

// Checks that two gradients are close. The bound allows for:
//   * `roundings` roundings of the largest element;
//   * another order of the sum over the classes;
//   * an error relative to the loss scale, because the gradient of a nearly certain prediction is a small difference of
//     two numbers near that scale.
void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, double roundings, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double epsilon = Epsilon(expected.scalar_type());
  const double largest = expected.abs().max().item<double>();
  const double error = actual.to(at::kDouble).sub(expected.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(error, (roundings * epsilon + 5e-6) * largest + 1e-6 * kLossScale) << what;
}

void ExpectSame(const Pass& ours, const Pass& theirs, double roundings, const std::string& what) {
  EXPECT_EQ(ours.loss.scalar_type(), at::kFloat) << what;
  EXPECT_EQ(ours.loss.dim(), 0) << what;
  const auto expected = theirs.loss.item<double>();
  EXPECT_NEAR(ours.loss.item<double>(), expected, 2e-6 * std::abs(expected)) << what;
  for (size_t i = 0; i < theirs.gradients.size(); ++i) {
    ExpectClose(ours.gradients[i], theirs.gradients[i], roundings, absl::StrCat(what, ", gradient ", i));
  }
}

TEST(CudaCrossEntropy, LossAndGradientEqualLibTorchs) {
  for (const int64_t rows : {1, 2, 33}) {
    for (const int64_t classes : {1, 2, 7, 4096, 50257}) {
      const at::Tensor target = RandomTarget(rows, classes);
      for (const at::ScalarType type : kTypes) {
        const at::Tensor logits = at::randn({rows, classes}).mul(4).to(type);
        const int64_t reduction = (rows + classes) % 2 == 0 ? kMean : kSum;
        const auto what = absl::StrCat(rows, "x", classes, " ", c10::toString(type), " ", reduction);
        ExpectSame(BothPasses({logits}, [&](const auto& leaves) { return LossOf(leaves[0], target, reduction); }),
                   BothPasses({logits}, [&](const auto& leaves) { return LibTorchs(leaves[0], target, reduction); }), 1,
                   what);
      }
    }
  }
}

// A way to make logits. `written_over` says whether the cross entropy overwrites these logits with their gradient.
struct Origin {
  const char* name;
  at::Tensor (*make)(const at::Tensor& leaf);
  bool written_over;
};

const Origin kOrigins[] = {
    {"a product", [](const at::Tensor& leaf) { return leaf.mul(2.0); }, true},
    {"a view of one",
     [](const at::Tensor& leaf) {
       return leaf.mul(2.0).view({kRows, 1, kClasses}).flatten(0, 1);
     },
     true},
    {"an op that saves its result", [](const at::Tensor& leaf) { return leaf.tanh(); }, false},
    {"a part of wider rows",
     [](const at::Tensor& leaf) {
       return leaf.repeat({1, 2}).narrow(1, 1, kClasses);
     },
     false},
    {"the same row many times",
     [](const at::Tensor& leaf) {
       return leaf.narrow(0, 1, 1).mul(2.0).expand({kRows, kClasses});
     },
     false},
    {"columns", [](const at::Tensor& leaf) { return leaf.t().contiguous().mul(2.0).t(); }, false}};

TEST(CudaCrossEntropy, WritesItsGradientOverLogitsThatNothingElseHolds) {
  const at::Tensor start = at::randn({kRows, kClasses});
  const at::Tensor target = RandomTarget(kRows, kClasses);
  for (const Origin& origin : kOrigins) {
    for (const bool held : {false, true}) {
      at::Tensor kept;
      const void* of_logits = nullptr;
      const void* of_gradient = nullptr;
      const Pass ours = BothPasses({start}, [&](const auto& leaves) {
        const at::Tensor logits = origin.make(leaves[0]);
        of_logits = logits.const_data_ptr();
        logits.register_hook([&](const at::Tensor& gradient) { of_gradient = gradient.const_data_ptr(); });
        kept = held ? logits : at::Tensor();
        return LossOf(logits, target, kMean);
      });
      const Pass theirs =
          BothPasses({start}, [&](const auto& leaves) { return LibTorchs(origin.make(leaves[0]), target, kMean); });
      ExpectSame(ours, theirs, 4, absl::StrCat(origin.name, held));
      EXPECT_EQ(of_gradient == of_logits, origin.written_over && !held) << origin.name << ", " << held;
      if (held) {
        EXPECT_TRUE(kept.equal(origin.make(start))) << origin.name;
      }
    }
  }
}

TEST(CudaCrossEntropy, ASecondBackwardPassOverWhatWasWrittenIsRefused) {
  const at::Tensor leaf = at::randn({kRows, kClasses}).requires_grad_();
  const at::Tensor loss = LossOf(leaf.mul(2.0), at::zeros({kRows}, at::kLong), kMean);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(CudaCrossEntropy, RowsThatAreLeftOutCountForNothing) {
  const at::Tensor logits = at::randn({kRows, kClasses});
  at::Tensor target = RandomTarget(kRows, kClasses);
  target.narrow(0, 2, 3).fill_(-100);
  for (const int64_t reduction : {kMean, kSum}) {
    const Pass ours = BothPasses({logits}, [&](const auto& leaves) { return LossOf(leaves[0], target, reduction); });
    const Pass theirs =
        BothPasses({logits}, [&](const auto& leaves) { return LibTorchs(leaves[0], target, reduction); });
    ExpectSame(ours, theirs, 1, absl::StrCat(reduction));
    EXPECT_EQ(ours.gradients[0].narrow(0, 2, 3).count_nonzero().item<int64_t>(), 0);
  }
  target.fill_(-100);
  const Pass none = BothPasses({logits}, [&](const auto& leaves) { return LossOf(leaves[0], target, kMean); });
  EXPECT_TRUE(none.loss.isnan().item<bool>()) << "the mean of nothing";
  EXPECT_EQ(none.gradients[0].count_nonzero().item<int64_t>(), 0);
}

TEST(CudaCrossEntropy, InfinitiesAndNansAreWhereLibTorchHasThem) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor target = at::zeros({kRows}, at::kLong);
  for (const float poison : {infinity, -infinity, std::nanf("")}) {
    for (const int64_t column : {0, 9}) {  // The target, and another class.
      const at::Tensor logits = at::randn({kRows, kClasses});
      logits[7][column].fill_(poison);
      const Pass ours = BothPasses({logits}, [&](const auto& leaves) { return LossOf(leaves[0], target, kMean); });
      const Pass theirs = BothPasses({logits}, [&](const auto& leaves) { return LibTorchs(leaves[0], target, kMean); });
      EXPECT_EQ(ours.loss.isnan().item<bool>(), theirs.loss.isnan().item<bool>()) << poison << column;
      EXPECT_EQ(ours.loss.isinf().item<bool>(), theirs.loss.isinf().item<bool>()) << poison << column;
      EXPECT_TRUE(ours.gradients[0].isfinite().equal(theirs.gradients[0].isfinite())) << poison << column;
    }
  }
}

TEST(CudaCrossEntropy, ATargetThatIsNoClassMakesTheLossNan) {
  const at::Tensor logits = at::randn({4, kClasses});
  for (const int64_t target : {kClasses, int64_t{-1}}) {
    EXPECT_TRUE(LossOf(logits, at::zeros({4}, at::kLong).fill_(target), kMean).isnan().item<bool>()) << target;
  }
}

// Targets of sizes that a cross entropy over kRows rows does not take.
std::vector<at::Tensor> WrongTargets() {
  return {RandomTarget(kRows - 1, kClasses), RandomTarget(kRows + 1, kClasses), RandomTarget(1, kClasses),
          RandomTarget(kRows, kClasses).unsqueeze(1)};
}

// The kernels get pointers without sizes, so fewer targets would be read behind their end.
TEST(CudaCrossEntropy, TargetsThatAreNotOneForEachRowAreAnError) {
  const at::Tensor logits = at::randn({kRows, kClasses});
  for (const at::Tensor& target : WrongTargets()) {
    EXPECT_THROW(LossOf(logits, target, kMean), c10::Error) << target.sizes();
  }
}

// The sizes and the dtype of a linear layer whose results go into a cross entropy.
struct Layer {
  std::vector<int64_t> input_sizes;
  int64_t num_classes = 0;
  bool has_bias = false;
  at::ScalarType type = at::kFloat;

  std::vector<at::Tensor> RandomStart() const {
    std::vector<at::Tensor> start = {at::randn(input_sizes).to(type),
                                     at::randn({num_classes, input_sizes.back()}).mul(0.3).to(type)};
    if (has_bias) {
      start.push_back(at::randn({num_classes}).to(type));
    }
    return start;
  }
  int64_t num_rows() const { return c10::multiply_integers(input_sizes) / input_sizes.back(); }
};

at::Tensor FusedLoss(const std::vector<at::Tensor>& leaves, const at::Tensor& target, int64_t reduction) {
  const c10::IValue bias = leaves.size() > 2 ? c10::IValue(leaves[2]) : c10::IValue();
  return Call("ampd.linear_cross_entropy", {leaves[0], leaves[1], bias, target, reduction});
}

at::Tensor PlainLoss(const std::vector<at::Tensor>& leaves, const at::Tensor& target, int64_t reduction) {
  const at::Tensor logits =
      at::linear(leaves[0], leaves[1], leaves.size() > 2 ? std::optional(leaves[2]) : std::nullopt);
  return LibTorchs(logits.reshape({-1, logits.size(-1)}), target, reduction);
}

// Compares two layers whose logits may differ in the last bit. Such a difference changes the loss of 16-bit logits by
// about one rounding.
void ExpectSameLayers(const Pass& ours, const Pass& theirs, at::ScalarType type, const std::string& what) {
  const auto expected = theirs.loss.item<double>();
  EXPECT_NEAR(ours.loss.item<double>(), expected, std::max(2e-6, Epsilon(type) / 8) * std::abs(expected)) << what;
  ASSERT_EQ(ours.gradients.size(), theirs.gradients.size());
  for (size_t i = 0; i < theirs.gradients.size(); ++i) {
    ExpectClose(ours.gradients[i], theirs.gradients[i], 3, absl::StrCat(what, ", gradient ", i));
  }
}

TEST(CudaLinearCrossEntropy, LossAndGradientsEqualLibTorchs) {
  for (const at::ScalarType type : kTypes) {
    for (const bool has_bias : {false, true}) {
      for (const auto& sizes : {std::vector<int64_t>{1, 16}, {33, 24}, {2, 5, 8}}) {
        for (const int64_t classes : {7, 64, 4099}) {
          const Layer layer = {sizes, classes, has_bias, type};
          const std::vector<at::Tensor> start = layer.RandomStart();
          at::Tensor target = RandomTarget(layer.num_rows(), classes);
          target.narrow(0, 0, layer.num_rows() / 4).fill_(-100);
          const int64_t reduction = has_bias ? kSum : kMean;
          const auto what = absl::StrCat(c10::toString(type), ", bias ", has_bias, ", rows ", layer.num_rows(),
                                         ", classes ", classes);
          ExpectSameLayers(BothPasses(start, [&](const auto& leaves) { return FusedLoss(leaves, target, reduction); }),
                           BothPasses(start, [&](const auto& leaves) { return PlainLoss(leaves, target, reduction); }),
                           type, what);
        }
      }
    }
  }
}

TEST(CudaLinearCrossEntropy, OnlyWhatIsTrainedHasAGradient) {
  const Layer layer = {{5, 8}, 4099, true, at::kFloat};
  const at::Tensor target = RandomTarget(5, 4099);
  for (size_t trained = 0; trained < 3; ++trained) {
    const std::vector<at::Tensor> start = layer.RandomStart();
    const auto run = [&](const auto& loss) {
      return BothPasses({start[trained]}, [&](const auto& leaves) {
        std::vector<at::Tensor> arguments = start;
        arguments[trained] = leaves[0];
        return loss(arguments, target, kMean);
      });
    };
    ExpectSameLayers(run(FusedLoss), run(PlainLoss), at::kFloat, absl::StrCat(trained));
  }
}

TEST(CudaLinearCrossEntropy, ReadsAnInputOfAnyStrides) {
  const at::Tensor weight = at::randn({4099, 8});
  const at::Tensor target = RandomTarget(6, 4099);
  const auto run = [&](const auto& loss) {
    return BothPasses({at::ones({2, 8, 3}).cumsum(1).div(9.0), weight}, [&](const auto& leaves) {
      return loss(std::vector<at::Tensor>{leaves[0].transpose(1, 2), leaves[1]}, target, kMean);
    });
  };
  ExpectSameLayers(run(FusedLoss), run(PlainLoss), at::kFloat, "transposed");
}

TEST(CudaLinearCrossEntropy, WithoutGradientsReturnsTheLoss) {
  const Layer layer = {{5, 8}, 4099, false, at::kFloat};
  const std::vector<at::Tensor> start = layer.RandomStart();
  const at::Tensor target = RandomTarget(5, 4099);
  const at::Tensor loss = FusedLoss(start, target, kSum);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_NEAR(loss.item<double>(), PlainLoss(start, target, kSum).item<double>(), 1e-3);
}

TEST(CudaLinearCrossEntropy, ASecondBackwardPassIsRefused) {
  const at::Tensor input = at::randn({kRows, 8}).requires_grad_();
  const at::Tensor loss = FusedLoss({input, at::randn({kClasses, 8})}, RandomTarget(kRows, kClasses), kMean);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(CudaLinearCrossEntropy, AnOverflowIsSeenInLossAndGradients) {
  at::Tensor input = at::randn({kRows, 8}).to(at::kHalf);
  input[3].fill_(60000.0);  // The logits of this row overflow.
  const Pass ours = BothPasses({input, at::ones({kClasses, 8}).to(at::kHalf)}, [&](const auto& leaves) {
    return FusedLoss(leaves, RandomTarget(kRows, kClasses), kMean);
  });
  EXPECT_FALSE(ours.loss.isfinite().item<bool>());
  EXPECT_FALSE(ours.gradients[0][3].isfinite().any().item<bool>());
  EXPECT_TRUE(ours.gradients[0][4].isfinite().all().item<bool>());
  EXPECT_FALSE(ours.gradients[1].isfinite().all().item<bool>());
}

TEST(CudaLinearCrossEntropy, TargetsThatAreNotOneForEachRowAreAnError) {
  const std::vector<at::Tensor> start = {at::randn({kRows, 8}), at::randn({kClasses, 8})};
  for (const at::Tensor& target : WrongTargets()) {
    EXPECT_THROW(FusedLoss(start, target, kMean), c10::Error) << target.sizes();
  }
}

// As in LibTorch's linear layer, one number is the bias of all classes. Six numbers are no bias of seven classes,
// although both are padded to eight.
TEST(CudaLinearCrossEntropy, ABiasHasOneNumberOrOneForEachClass) {
  const at::Tensor input = at::randn({5, 8}), weight = at::randn({7, 8});
  const at::Tensor target = RandomTarget(5, 7);
  const std::vector<at::Tensor> shared = {input, weight, at::ones({1}).mul(3.0)};
  EXPECT_NEAR(FusedLoss(shared, target, kMean).item<double>(), PlainLoss(shared, target, kMean).item<double>(), 1e-4);
  EXPECT_THROW(FusedLoss({input, weight, at::randn({6})}, target, kMean), c10::Error);
}

TEST(CudaLinearCrossEntropy, IsNotRegisteredWithoutKernels) {
  executor::OpRegistry registry;
  RegisterLinearCrossEntropy(registry, ComputeDevice());
  EXPECT_EQ(registry.Find("ampd.linear_cross_entropy"), nullptr);
}

}  // namespace
}  // namespace ampd::amp
