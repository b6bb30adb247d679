// Tests training with the loss head of a language model in the form for a GPU, in which the linear layer and its loss
// are one op. The source of its CUDA kernels runs here over an emulated CUDA on CPU tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/randint.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "models/gpt2.h"
#include "precision/pass.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

constexpr int64_t kVocabulary = 4099;
constexpr int64_t kPositions = 6;

graph::Graph LanguageModel() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(1);
  spec.set_n_embd(16);
  spec.set_n_head(2);
  spec.set_vocab_size(kVocabulary);
  spec.set_n_positions(kPositions);
  spec.set_dropout(0);
  return models::BuildGpt2(spec, 0).value();
}

Batch RandomBatch() {
  const auto tokens = [] { return at::randint(kVocabulary, {2, kPositions}, at::kLong); };
  return {tokens(), tokens()};
}

// Returns an engine, which uses the CUDA kernels if `with_cuda` is true. If `fuses` is true, the loss head is one op,
// as it is under policies for a GPU.
std::unique_ptr<Engine> MakeEngine(const v1::PrecisionPolicy& preset, bool fuses, bool with_cuda,
                                   const StepGraphs* graphs = nullptr, const std::vector<std::string>& segments = {}) {
  const graph::Graph model = LanguageModel();
  const graph::Graph program = graph::WithLossHead(model).value();
  precision::ResolvedPolicy policy = Resolved(preset, program);
  policy.fuses_linear_cross_entropy = fuses;
  EXPECT_EQ(
      graph::ToText(*precision::ApplyPrecision(program, policy)).find("ampd.linear_cross_entropy") != std::string::npos,
      fuses);
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.seed = 3;
  options.checkpoint_segments = segments;
  options.device.cuda_kernels = with_cuda ? RecordableKernels() : nullptr;
  options.device.graphs = graphs;
  return Engine::Create(model, policy, options).value();
}

class LossHeadTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    generator.set_current_seed(5);
    GraphCounts() = {};
  }
};
INSTANTIATE_TEST_SUITE_P(Presets, LossHeadTest, testing::Values("fp32", "bf16", "torch-amp-bf16"));

TEST_P(LossHeadTest, TrainsLikeTheCpus) {
  const auto cpu = MakeEngine(PresetNamed(GetParam()), false, false);
  const auto kernels = MakeEngine(PresetNamed(GetParam()), false, true);
  const auto fused = MakeEngine(PresetNamed(GetParam()), true, true);
  const Batch batch = RandomBatch();
  const bool is_fp32 = GetParam() == std::string("fp32");
  for (int step = 0; step < 4; ++step) {
    const StepResult expected = cpu->Step({batch});
    for (Engine* const engine : {kernels.get(), fused.get()}) {
      const StepResult actual = engine->Step({batch});
      EXPECT_NEAR(actual.loss, expected.loss, (is_fp32 ? 1e-5 : 2e-3) * expected.loss) << step;
      EXPECT_NEAR(actual.grad_norm, expected.grad_norm, (is_fp32 ? 1e-4 : 3e-2) * expected.grad_norm) << step;
      EXPECT_EQ(actual.skipped, expected.skipped) << step;
    }
  }
  const EvalSums expected = cpu->Evaluate(batch);
  EXPECT_NEAR(fused->Evaluate(batch).loss, expected.loss, (is_fp32 ? 1e-4 : 1e-2) * expected.loss);
}

TEST_P(LossHeadTest, ReplaysGiveTheBitsOfDirectSteps) {
  for (const bool fuses : {true, false}) {
    GraphCounts() = {};
    const auto direct = MakeEngine(PresetNamed(GetParam()), fuses, true);
    const auto replayed = MakeEngine(PresetNamed(GetParam()), fuses, true, RecordedGraphs());
    for (int step = 0; step < 5; ++step) {
      const Batch batch = RandomBatch();
      EXPECT_EQ(replayed->Step({batch}).loss, direct->Step({batch}).loss) << fuses << step;
      EXPECT_EQ(replayed->graph_failure(), "");
      EXPECT_EQ(DigestOf(*replayed), DigestOf(*direct)) << fuses << step;
    }
    EXPECT_EQ(GraphCounts().replays, 2) << fuses;
  }
}

TEST_P(LossHeadTest, IsRecomputedInACheckpointSegment) {
  const auto kept = MakeEngine(PresetNamed(GetParam()), true, true);
  const auto recomputed = MakeEngine(PresetNamed(GetParam()), true, true, nullptr, {"lm_head"});
  for (int step = 0; step < 2; ++step) {
    const Batch batch = RandomBatch();
    EXPECT_EQ(recomputed->Step({batch}).loss, kept->Step({batch}).loss) << step;
  }
  EXPECT_EQ(DigestOf(*recomputed), DigestOf(*kept));
}

TEST_P(LossHeadTest, AnOverflowSkipsTheStep) {
  const auto engine = MakeEngine(PresetNamed(GetParam()), true, true);
  EngineState state = engine->ExportState();
  state.model.at("transformer.ln_f.weight").fill_(std::numeric_limits<float>::infinity());
  ASSERT_TRUE(engine->ImportState(state).ok());
  const StepResult result = engine->Step({RandomBatch()});
  EXPECT_TRUE(result.skipped);
  EXPECT_FALSE(std::isfinite(result.loss));
}

}  // namespace
}  // namespace ampd::amp
