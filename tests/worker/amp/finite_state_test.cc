#include "worker/amp/finite_state.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/zeros.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

using Kind = StateTensor::Kind;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

at::Tensor With(at::Tensor tensor, int64_t place, float number) {
  tensor.view(-1)[place] = number;
  return tensor;
}

std::string Found(const std::vector<StateTensor>& tensors) {
  const auto found = FindNonFinite(tensors);
  return found.has_value() ? Describe(*found) : "";
}

TEST(FindNonFinite, FiniteNumbersOfEveryTypeAreLeftInPeace) {
  EXPECT_EQ(Found({}), "");
  EXPECT_EQ(Found({{Kind::kParameter, "a", at::ones({3, 3})},
                   {Kind::kParameter, "b", at::full({7}, 65504, at::kHalf)},
                   {Kind::kParameter, "c", at::full({7}, 3e38, at::kBFloat16)},
                   {Kind::kConstant, "mask", at::full({4}, -kInfinity)},
                   {Kind::kStatistic, "count", at::ones({2}, at::kLong)},
                   {Kind::kParameter, "d", at::empty({0})}}),
            "");
}

TEST(FindNonFinite, TheFirstTensorIsNamedWithWhatItIs) {
  EXPECT_EQ(Found({{Kind::kParameter, "a", at::ones({3})}, {Kind::kParameter, "b", With(at::ones({3, 5}), 14, kNan)}}),
            "the parameter b has 1 element that is not finite");
  EXPECT_EQ(Found({{Kind::kStatistic, "bn.running_var", at::full({4}, kInfinity)},
                   {Kind::kAverage, "a.average", at::full({4}, kNan)}}),
            "the running statistic bn.running_var has 4 elements that are not finite");
  EXPECT_EQ(Found({{Kind::kParameter, "h", With(at::ones({9}, at::kHalf), 2, -kInfinity)}}),
            "the parameter h has 1 element that is not finite in float16");
  EXPECT_EQ(Found({{Kind::kConstant, "mask", With(at::full({4}, -kInfinity), 3, kNan)}}),
            "the buffer mask has 1 element that is NaN");
}

// The search finds a non-finite number wherever it is in the engine's state, and names the tensor that holds it.
TEST(FindNonFinite, AnEngineLooksAtAllOfItsState) {
  EngineOptions options{.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 0.01, .ema_decay = 0.9}};
  for (const char* preset : {"fp32", "fp16", "bf16"}) {
    const auto engine = CpuEngine(SmallLenet({4}), PresetNamed(preset), options);
    ASSERT_FALSE(engine->FindNonFinite().has_value());
    engine->Step({MakeBatch(1, 8)});
    ASSERT_FALSE(engine->FindNonFinite().has_value());
    const EngineState good = engine->ExportState();
    const std::string name = good.model.begin()->first;
    const auto after = [&](TensorMap EngineState::*part, const std::string& tensor) {
      EngineState state = engine->ExportState();
      state.model = good.model;
      state.optimizer = good.optimizer;
      (state.*part)[tensor] = With((state.*part)[tensor].clone(), 0, kNan);
      EXPECT_TRUE(engine->ImportState(state).ok());
      const auto found = engine->FindNonFinite();
      return found.has_value() ? found->name : "";
    };
    EXPECT_EQ(after(&EngineState::model, name), name) << preset;
    EXPECT_EQ(after(&EngineState::optimizer, name + ".average"), name + ".average") << preset;
    EXPECT_EQ(after(&EngineState::optimizer, name + ".exp_avg_sq"), name + ".exp_avg_sq") << preset;
  }
}

}  // namespace
}  // namespace ampd::amp
