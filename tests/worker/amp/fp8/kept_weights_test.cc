// Tests which FP8 weights the layers keep while the passes of a step run. They are compared with the FP8 weights of
// layers that keep none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ATen/Context.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/randn.h"
#include "worker/amp/fp8/fp8_layers.h"
#include "worker/amp/fp8/fp8_linear.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {
namespace {

using precision::Fp8Recipe;
using ::testing::ElementsAreArray;
using Scaling = Fp8Recipe::Scaling;

constexpr int64_t kSamples = 24;
constexpr int64_t kInputs = 256;
constexpr int64_t kOutputs = 128;
constexpr Scaling kScalings[] = {Scaling::kDelayed, Scaling::kCurrent, Scaling::kBlock};
constexpr Fp8Sums kPlain = {.over_columns = true};
constexpr Fp8Sums kTransposed = {.over_rows = true};
constexpr Fp8Sums kBoth = {.over_columns = true, .over_rows = true};

Fp8Recipe WithCanaryAndHistory(Scaling scaling) {
  Fp8Recipe recipe;
  recipe.scaling = scaling;
  recipe.amax_history_length = 4;
  recipe.canary_every_steps = 2;
  return recipe;
}

c10::intrusive_ptr<Fp8Layers> TwoLayers(Scaling scaling) {
  const std::vector<precision::Fp8Layer> layers = {{"first", {}}, {"second", {}}};
  return c10::make_intrusive<Fp8Layers>(WithCanaryAndHistory(scaling), layers, ComputeDevice());
}

at::Tensor Weight() { return at::randn({kOutputs, kInputs}).to(at::kBFloat16); }

// Changes a weight without a change of LibTorch's version counter, as a replayed step does.
void Overwrite(const at::Tensor& weight, const at::Tensor& with) {
  std::memcpy(weight.mutable_data_ptr(), with.const_data_ptr(), weight.nbytes());
}

bool SameBits(const Fp8Matrix& a, const Fp8Matrix& b) {
  return at::equal(a.data.view(at::kByte), b.data.view(at::kByte)) && at::equal(a.inverse_scale, b.inverse_scale);
}

// Quantizes the weight of the first layer with a new pair of layers, which keeps no FP8 weights.
Fp8Operands Anew(Scaling scaling, const at::Tensor& weight) {
  return TwoLayers(scaling)->QuantizeWeight(0, weight, kBoth, {}, false);
}

TEST(KeptFp8Weights, AreMadeOnceForBothPassesAndDroppedAtTheEnd) {
  for (const Scaling scaling : kScalings) {
    const auto layers = TwoLayers(scaling);
    const at::Tensor weight = Weight();
    layers->SetParameters({weight});
    {
      const Fp8PassScope scope(layers.get());
      const Fp8Matrix forward = layers->QuantizeWeight(0, weight, kPlain, kTransposed, true).over_columns;
      const Fp8Operands backward = layers->QuantizeWeight(0, weight, kTransposed, {}, true);
      EXPECT_FALSE(backward.over_columns.data.defined());
      EXPECT_TRUE(SameBits(forward, Anew(scaling, weight).over_columns));
      EXPECT_TRUE(SameBits(backward.over_rows, Anew(scaling, weight).over_rows));
      const Fp8Operands again = layers->QuantizeWeight(0, weight.detach(), kBoth, {}, true);
      EXPECT_TRUE(again.over_columns.data.is_same(forward.data));
      EXPECT_TRUE(again.over_rows.data.is_same(backward.over_rows.data));
      EXPECT_FALSE(layers->QuantizeWeight(1, weight, kPlain, {}, true).over_columns.data.is_same(forward.data))
          << "another layer has other scales";
      EXPECT_GT(forward.data.use_count(), 2);
    }
    const Fp8Matrix after = layers->QuantizeWeight(0, weight, kPlain, {}, true).over_columns;
    EXPECT_EQ(after.data.use_count(), 1) << "nothing is kept without a scope";
  }
}

TEST(KeptFp8Weights, AChangedWeightIsQuantizedAnew) {
  for (const Scaling scaling : kScalings) {
    const auto layers = TwoLayers(scaling);
    const at::Tensor weight = Weight();
    layers->SetParameters({weight});
    for (int step = 0; step < 2; ++step) {
      {
        const Fp8PassScope scope(layers.get());
        for (int change = 0; change < 2; ++change) {
          const Fp8Operands made = layers->QuantizeWeight(0, weight, kBoth, {}, false);
          EXPECT_TRUE(SameBits(made.over_columns, Anew(scaling, weight).over_columns)) << step << change;
          EXPECT_TRUE(SameBits(made.over_rows, Anew(scaling, weight).over_rows)) << step << change;
          weight.mul_(-3);  // An op writes the parameter, which changes its version counter.
        }
      }
      Overwrite(weight, weight.mul(-3));
    }
  }
}

TEST(KeptFp8Weights, ViewsAreToldApartAndComputedWeightsAreNotKept) {
  const auto layers = TwoLayers(Scaling::kCurrent);
  const at::Tensor stored = at::randn({3 * kOutputs, kInputs}).to(at::kBFloat16);
  layers->SetParameters({stored});
  const Fp8PassScope scope(layers.get());
  const at::Tensor parts[] = {stored.narrow(0, 0, kOutputs), stored.narrow(0, kOutputs, kOutputs), stored.t()};
  for (const at::Tensor& part : parts) {
    const Fp8Matrix made = layers->QuantizeWeight(0, part, kPlain, {}, true).over_columns;
    EXPECT_TRUE(SameBits(made, Anew(Scaling::kCurrent, part).over_columns));
    EXPECT_TRUE(layers->QuantizeWeight(0, part.detach(), kPlain, {}, true).over_columns.data.is_same(made.data));
  }
  const at::Tensor computed = stored.mul(2);
  const Fp8Matrix made = layers->QuantizeWeight(0, computed, kPlain, {}, true).over_columns;
  EXPECT_FALSE(layers->QuantizeWeight(0, computed, kPlain, {}, true).over_columns.data.is_same(made.data));
}

TEST(KeptFp8Weights, OneScopeLivesAtATime) {
  const auto layers = TwoLayers(Scaling::kCurrent);
  const Fp8PassScope scope(layers.get());
  EXPECT_THROW(Fp8PassScope{layers.get()}, c10::Error);
}

// The results and gradients of a step's micro-batches, and the state and findings of the layers after the step.
struct StepNumbers {
  std::vector<at::Tensor> tensors;
  executor::TensorMap state;
  std::vector<Fp8Finding> findings;
};

// Runs a step of three micro-batches through the first layer, and ends the step as the engine does.
StepNumbers RunStep(Fp8Layers& layers, const executor::OpRegistry& registry, const at::Tensor& weight, int step,
                    bool keeps) {
  layers.BeginStep(step);
  StepNumbers numbers;
  {
    const Fp8PassScope scope(keeps ? &layers : nullptr);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor input = at::randn({kSamples, kInputs}).to(at::kBFloat16).requires_grad_(true);
      std::vector<c10::IValue> stack = {input, weight.t(), c10::IValue(), int64_t{0}, true, true, true};
      (*registry.Find("ampd.linear_fp8"))(stack);
      const at::Tensor result = stack[0].toTensor();
      result.backward(at::randn({kSamples, kOutputs}).to(at::kBFloat16));
      numbers.tensors.insert(numbers.tensors.end(), {result.detach(), input.grad()});
    }
  }
  numbers.tensors.push_back(weight.grad());
  layers.EndStep(at::full({}, false, at::kBool));
  numbers.findings = layers.Judge(false);
  numbers.state = layers.ExportState();
  return numbers;
}

// Runs two steps. Between them, the weight changes, as an optimizer changes it. The first step is a canary step, which
// compares FP8 products with the same products in the compute format.
std::vector<StepNumbers> RunSteps(Scaling scaling, bool keeps) {
  at::manual_seed(5);
  const auto layers = TwoLayers(scaling);
  executor::OpRegistry registry;
  RegisterFp8Linear(registry, layers);
  std::vector<StepNumbers> steps;
  const at::Tensor weight = at::randn({kInputs, kOutputs}).to(at::kBFloat16);
  layers->SetParameters({weight});
  for (int step = 0; step < 2; ++step) {
    const at::Tensor leaf = weight.detach().requires_grad_(true);
    steps.push_back(RunStep(*layers, registry, leaf, step, keeps));
    Overwrite(weight, weight.mul(3));
  }
  return steps;
}

TEST(KeptFp8Weights, ChangeNoBitOfAStep) {
  for (const Scaling scaling : kScalings) {
    const std::vector<StepNumbers> kept = RunSteps(scaling, true);
    const std::vector<StepNumbers> plain = RunSteps(scaling, false);
    for (size_t step = 0; step < plain.size(); ++step) {
      ASSERT_EQ(kept[step].tensors.size(), plain[step].tensors.size());
      for (size_t i = 0; i < plain[step].tensors.size(); ++i) {
        EXPECT_TRUE(at::equal(kept[step].tensors[i], plain[step].tensors[i])) << step << " " << i;
      }
      for (const auto& [name, tensor] : plain[step].state) {
        EXPECT_TRUE(at::equal(kept[step].state.at(name), tensor)) << step << " " << name;
      }
      ASSERT_EQ(kept[step].findings.size(), plain[step].findings.size());
      EXPECT_EQ(plain[step].findings.empty(), step == 1);
      for (size_t i = 0; i < plain[step].findings.size(); ++i) {
        EXPECT_THAT(kept[step].findings[i].errors, ElementsAreArray(plain[step].findings[i].errors));
        EXPECT_THAT(kept[step].findings[i].underflow, ElementsAreArray(plain[step].findings[i].underflow));
        EXPECT_THAT(kept[step].findings[i].saturation, ElementsAreArray(plain[step].findings[i].saturation));
      }
    }
  }
}

}  // namespace
}  // namespace ampd::amp
