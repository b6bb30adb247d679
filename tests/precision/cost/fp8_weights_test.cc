#include "precision/cost/fp8_weights.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "precision/cost/memory.h"
#include "precision/pass.h"
#include "precision/policy.h"

namespace ampd::precision {
namespace {

constexpr int64_t kWidth = 128;
constexpr int64_t kWeight = kWidth * kWidth;

// Builds four layers. The two in the middle compute in FP8 under the FP8 presets: the first of them runs twice, the
// second has a weight that is stored transposed. `num_more` further layers in FP8 follow these two.
graph::Graph Model(int num_more = 0) {
  graph::GraphBuilder b("layers");
  graph::ValueId x = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), kWidth}});
  x = b.Relu("h.0.relu", b.Linear("h.0.fc", x, kWidth));
  const graph::ValueId weight = b.Parameter("h.1.fc.weight", {kWidth, kWidth}, graph::Initializer::Normal(0.05));
  x = b.Relu("h.1.relu", b.TiedLinear("h.1.fc", b.TiedLinear("h.1.fc", x, weight), weight));
  x = b.Relu("h.2.relu", b.Conv1d("h.2.fc", x, kWidth, graph::Initializer::Normal(0.05)));
  for (int i = 0; i < num_more; ++i) {
    x = b.Linear(absl::StrCat("h.", 3 + i, ".fc"), x, kWidth);
  }
  b.Output("logits", b.Linear(absl::StrCat("h.", 3 + num_more, ".fc"), x, 10));
  return *std::move(b).Build();
}

v1::PrecisionPolicy PolicyOf(const std::string& preset) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  return policy;
}

ResolvedPolicy Resolve(const v1::PrecisionPolicy& policy, const graph::Graph& program) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  return ResolvePolicy(policy, program, cpu, OptimizerKind::kAdam).value();
}

int64_t BytesUnder(const v1::PrecisionPolicy& policy) {
  const graph::Graph program = graph::WithLossHead(Model()).value();
  return Fp8WeightBytes(ApplyPrecision(program, Resolve(policy, program)).value());
}

TEST(Fp8WeightBytes, AreTwoPerElementOfEachWeight) {
  EXPECT_EQ(BytesUnder(PolicyOf("fp8")), 4 * kWeight);
  EXPECT_EQ(BytesUnder(PolicyOf("fp8-block")), 4 * kWeight);
  EXPECT_EQ(BytesUnder(PolicyOf("bf16")), 0);
}

TEST(Fp8WeightBytes, LeaveOutProductsThatAreNotInFp8) {
  v1::PrecisionPolicy policy = PolicyOf("fp8");
  v1::ModuleRule* const rule = policy.add_module_rules();
  rule->set_match("h.2.fc");
  rule->set_exclude_input_gradient(true);
  EXPECT_EQ(BytesUnder(policy), (2 + 1) * kWeight);
}

TEST(Fp8WeightBytes, LeaveOutCastsOfParameters) {
  v1::PrecisionPolicy policy = PolicyOf("torch-amp-bf16");
  policy.mutable_fp8();
  const graph::Graph program = graph::WithLossHead(Model()).value();
  ASSERT_EQ(Resolve(policy, program).fp8_layers.size(), 2U);
  EXPECT_EQ(BytesUnder(policy), 0);
}

// The workspaces of a step and of an evaluation.
std::pair<int64_t, int64_t> Workspaces(int num_more) {
  const TrainedPrograms programs = TrainedPrograms::Of(Model(num_more), /*evaluates=*/true).value();
  const ResolvedPolicy policy = Resolve(PolicyOf("fp8"), programs.train);
  const auto workspace = [&](const TrainingSetup& setup) {
    return MemoryModel::Create(programs, policy, setup).value().At(1).workspace;
  };
  return {workspace({}), workspace({.only_evaluates = true})};
}

// Compares models with fewer and more layers in FP8. The memory that a single op needs while it runs is the same in
// both models, so the difference shows only the FP8 weights.
TEST(Fp8WeightBytes, AreInTheMemoryOfAStepAndNotOfAnEvaluation) {
  const auto [step, evaluation] = Workspaces(0);
  const auto [larger_step, larger_evaluation] = Workspaces(5);
  EXPECT_EQ(larger_step - step, 10 * kWeight);
  EXPECT_EQ(larger_evaluation, evaluation);
}

}  // namespace
}  // namespace ampd::precision
