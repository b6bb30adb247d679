#include "worker/amp/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ATen/core/ivalue.h"
#include "ATen/ops/cross_entropy_loss.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

constexpr int64_t kMean = 1;
constexpr int64_t kSum = 2;
constexpr int64_t kClasses = 5003;
constexpr int64_t kRows = 431;  // On a CPU, the op computes these rows in three parts, the last one incomplete.

struct Pass {
  at::Tensor loss;
  at::Tensor gradient;
};

at::Tensor LossOf(const at::Tensor& logits, const at::Tensor& target, int64_t reduction) {
  executor::OpRegistry registry;
  RegisterCrossEntropy(registry, /*device=*/{});
  std::vector<c10::IValue> stack = {logits, target, reduction};
  (*registry.Find("ampd.cross_entropy"))(stack);
  return stack.at(0).toTensor();
}

template <typename Loss>
Pass BothPasses(const at::Tensor& logits, const Loss& loss_of) {
  const at::Tensor leaf = logits.detach().requires_grad_();
  const at::Tensor loss = loss_of(leaf);
  loss.mul(64.0).backward();  // 64 is the loss scale.
  return {loss.detach(), leaf.grad()};
}

Pass Ours(const at::Tensor& logits, const at::Tensor& target, int64_t reduction) {
  return BothPasses(logits, [&](const at::Tensor& leaf) { return LossOf(leaf, target, reduction); });
}

Pass LibTorchs(const at::Tensor& logits, const at::Tensor& target, int64_t reduction) {
  return BothPasses(logits, [&](const at::Tensor& leaf) {
    return at::cross_entropy_loss(leaf.to(at::kFloat), target, /*weight=*/{}, reduction);
  });
}

TEST(CrossEntropy, IsLibTorchsToTheBit) {
  const at::Tensor target = at::randint(kClasses, {kRows}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = at::randn({kRows, kClasses}).mul(4).to(type);
    for (const int64_t reduction : {kMean, kSum}) {
      const Pass ours = Ours(logits, target, reduction);
      const Pass theirs = LibTorchs(logits, target, reduction);
      EXPECT_EQ(ours.loss.scalar_type(), at::kFloat);
      EXPECT_TRUE(ours.loss.equal(theirs.loss)) << type << ", " << reduction;
      EXPECT_EQ(ours.gradient.scalar_type(), type);
      EXPECT_TRUE(ours.gradient.equal(theirs.gradient)) << type << ", " << reduction;
    }
  }
}

// A way to make logits. `written_over` says whether the cross entropy overwrites these logits with their gradient.
struct Origin {
  const char* name;
  at::Tensor (*make)(const at::Tensor& leaf);
  bool written_over;
};

const Origin kOrigins[] = {{"a product", [](const at::Tensor& leaf) { return leaf.mul(2.0); }, true},
                           {"a view of one",
                            [](const at::Tensor& leaf) {
                              return leaf.mul(2.0).view({kRows, 1, kClasses}).flatten(0, 1);
                            },
                            true},
                           {"an op that saves its result", [](const at::Tensor& leaf) { return leaf.tanh(); }, false},
                           {"a view of what saves its result",
                            [](const at::Tensor& leaf) {
                              return leaf.tanh().view({kRows, kClasses});
                            },
                            false},
                           {"a part of wider rows",
                            [](const at::Tensor& leaf) {
                              return leaf.repeat({1, 2}).narrow(1, 0, kClasses);
                            },
                            false}};

TEST(CrossEntropy, WritesItsGradientOverLogitsThatNothingElseHolds) {
  const at::Tensor start = at::randn({kRows, kClasses});
  const at::Tensor target = at::randint(kClasses, {kRows}, at::kLong);
  for (const Origin& origin : kOrigins) {
    for (const bool held : {false, true}) {
      const Pass theirs =
          BothPasses(start, [&](const at::Tensor& leaf) { return at::cross_entropy_loss(origin.make(leaf), target); });
      at::Tensor kept;
      const void* of_logits = nullptr;
      const void* of_gradient = nullptr;
      const Pass ours = BothPasses(start, [&](const at::Tensor& leaf) {
        const at::Tensor logits = origin.make(leaf);
        of_logits = logits.const_data_ptr();
        logits.register_hook([&](const at::Tensor& gradient) { of_gradient = gradient.const_data_ptr(); });
        kept = held ? logits : at::Tensor();
        return LossOf(logits, target, kMean);
      });
      EXPECT_TRUE(ours.gradient.equal(theirs.gradient)) << origin.name << ", " << held;
      EXPECT_EQ(of_gradient == of_logits, origin.written_over && !held) << origin.name << ", " << held;
      if (held) {
        EXPECT_TRUE(kept.equal(origin.make(start))) << origin.name;
      }
    }
  }
}

TEST(CrossEntropy, ASecondBackwardPassOverWhatWasWrittenIsRefused) {
  const at::Tensor leaf = at::randn({kRows, kClasses}).requires_grad_();
  const at::Tensor loss = LossOf(leaf.mul(2.0), at::zeros({kRows}, at::kLong), kMean);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(CrossEntropy, RowsThatAreLeftOutCountForNothing) {
  const at::Tensor logits = at::randn({kRows, kClasses});
  at::Tensor target = at::randint(kClasses, {kRows}, at::kLong);
  target.narrow(0, 200, 30).fill_(-100);
  target.narrow(0, 3, 1).fill_(-100);
  const Pass ours = Ours(logits, target, kMean);
  const Pass theirs = LibTorchs(logits, target, kMean);
  EXPECT_TRUE(ours.loss.equal(theirs.loss));
  EXPECT_TRUE(ours.gradient.equal(theirs.gradient));
  EXPECT_EQ(ours.gradient[3].count_nonzero().item<int64_t>(), 0);
  target.fill_(-100);
  const Pass none = Ours(logits, target, kMean);
  EXPECT_TRUE(none.loss.isnan().item<bool>()) << "the mean of nothing";
  EXPECT_EQ(none.gradient.count_nonzero().item<int64_t>(), 0);
}

TEST(CrossEntropy, ALogitThatIsNotFiniteIsNotFiniteInTheLoss) {
  at::Tensor logits = at::randn({kRows, kClasses});
  logits[7][9].fill_(std::numeric_limits<float>::infinity());
  const Pass ours = Ours(logits, at::zeros({kRows}, at::kLong), kMean);
  EXPECT_FALSE(ours.loss.isfinite().item<bool>());
  EXPECT_FALSE(ours.gradient[7].isfinite().all().item<bool>());
  EXPECT_TRUE(ours.gradient[8].isfinite().all().item<bool>());
}

TEST(CrossEntropy, AClassThatIsNoneIsAnError) {
  const at::Tensor logits = at::randn({4, kClasses});
  for (const int64_t target : {kClasses, int64_t{-1}}) {
    EXPECT_THROW(Ours(logits, at::zeros({4}, at::kLong).fill_(target), kMean), c10::Error) << target;
  }
}

}  // namespace
}  // namespace ampd::amp
