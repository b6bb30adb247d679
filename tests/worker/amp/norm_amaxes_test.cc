// Tests whole engine steps in which layer norms find the amaxes (largest magnitudes) of the FP8 layers that read their
// results. The policies are resolved for a GPU; the kernels run over the emulated CUDA on CPU tensors. The steps must
// give the bits of steps in which each FP8 layer finds the amax of its input itself.
#include "graph/norm_amaxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Context.h"
#include "ATen/core/ivalue.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/policy.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/amp/small_problem.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/activation_sample.h"
#include "worker/amp/ops/layer_norm.h"
#include "worker/executor/executor.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {
namespace {

constexpr int64_t kVocabulary = 24;
constexpr int64_t kLength = 4;
// The middle one of the model's three blocks computes in FP8. Two of its four layers read the result of a norm.
constexpr int64_t kLayersBehindNorms = 2;

graph::Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 3, .width = 16, .num_heads = 2, .vocabulary = kVocabulary, .sequence_length = kLength})
      .value();
}

std::vector<Batch> Batches(int64_t num) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < num; ++i) {
    batches.push_back(
        {at::randint(0, kVocabulary, {2, kLength}, at::kLong), at::randint(0, kVocabulary, {2 * kLength}, at::kLong)});
  }
  return batches;
}

// The cells of the amaxes that quantize_tensor was given, in the order of the calls. CountingKernels() fills the lists,
// and tests clear them. A replay of recorded launches adds nothing.
struct AmaxCells {
  std::vector<const float*> known;
  std::vector<const float*> found;
};

AmaxCells& Cells() {
  static AmaxCells cells;
  return cells;
}

const kernels::CudaKernels* CountingKernels() {
  static const kernels::CudaFp8Kernels counting = [] {
    kernels::CudaFp8Kernels made = *RecordableKernels()->fp8;
    made.quantize_tensor = [](const kernels::CudaFp8Matrix* matrix, const float* known_scale, float* amax,
                              bool is_amax_known, void* stream) {
      (is_amax_known ? Cells().known : Cells().found).push_back(amax);
      return RecordableKernels()->fp8->quantize_tensor(matrix, known_scale, amax, is_amax_known, stream);
    };
    return made;
  }();
  static const kernels::CudaKernels table = [] {
    kernels::CudaKernels made = *RecordableKernels();
    made.fp8 = &counting;
    return made;
  }();
  return &table;
}

struct Setup {
  bool norms_find_amaxes = true;
  bool with_graphs = false;
  std::vector<std::string> checkpoint_segments = {};
  int canary_every_steps = 0;
};

std::unique_ptr<Engine> MakeEngine(const std::string& preset, const Setup& setup) {
  v1::PrecisionPolicy policy = PresetNamed(preset);
  policy.mutable_fp8()->set_canary_every_steps(setup.canary_every_steps);
  policy.mutable_fp8()->set_canary_bound(1e-6);  // Every canary step demotes all layers.
  v1::Device gpu;
  gpu.set_kind(v1::Device::GPU);
  gpu.set_capability_major(9);
  precision::ResolvedPolicy resolved =
      precision::ResolvePolicy(policy, graph::WithLossHead(Gpt()).value(), gpu, precision::OptimizerKind::kAdam)
          .value();
  resolved.norms_find_amaxes = resolved.norms_find_amaxes && setup.norms_find_amaxes;
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
  options.seed = 3;
  options.checkpoint_segments = setup.checkpoint_segments;
  options.device.cuda_kernels = CountingKernels();
  options.device.graphs = setup.with_graphs ? RecordedGraphs() : nullptr;
  return Engine::Create(Gpt(), resolved, options).value();
}

class NormAmaxesTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    Cells() = {};
  }
};
INSTANTIATE_TEST_SUITE_P(Presets, NormAmaxesTest, testing::Values("fp8", "fp8-delayed"));

TEST_P(NormAmaxesTest, GiveTheSameBitsWithOneLaunchFewerForEachLayerBehindANorm) {
  const auto ours = MakeEngine(GetParam(), {});
  const auto alone = MakeEngine(GetParam(), {.norms_find_amaxes = false});
  for (const int64_t num_micro_batches : {1, 1, 3, 3}) {
    const std::vector<Batch> batches = Batches(num_micro_batches);
    StepResult result, expected;
    Cells() = {};
    const int64_t num_launches = kernels::RunBackwards([&] { expected = alone->Step(batches); });
    const AmaxCells without = std::exchange(Cells(), {});
    const int64_t num_fewer = num_launches - kernels::RunBackwards([&] { result = ours->Step(batches); });
    EXPECT_EQ(num_fewer, kLayersBehindNorms * num_micro_batches);
    EXPECT_TRUE(without.known.empty());
    EXPECT_EQ(std::ssize(Cells().known), kLayersBehindNorms * num_micro_batches);
    EXPECT_EQ(Cells().known.size() + Cells().found.size(), without.found.size());
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_EQ(result.grad_norm, expected.grad_norm);
    EXPECT_EQ(DigestOf(*ours), DigestOf(*alone));
    EXPECT_EQ(ours->Evaluate(batches[0]).loss, alone->Evaluate(batches[0]).loss);
  }
}

TEST_P(NormAmaxesTest, TheCellsOfAStepArePartsOfOneTensor) {
  const auto engine = MakeEngine(GetParam(), {});
  engine->Step(Batches(2));
  std::vector<const float*> cells = Cells().known;
  cells.insert(cells.end(), Cells().found.begin(), Cells().found.end());
  std::sort(cells.begin(), cells.end());
  EXPECT_EQ(cells.back() - cells.front(), std::ssize(cells) - 1) << "no cell is used twice, and none is unused";
}

// Tests three choices of segments: all blocks; one norm; one layer that reads a norm's result.
TEST_P(NormAmaxesTest, CheckpointSegmentsGiveTheSameBits) {
  const auto whole = MakeEngine(GetParam(), {.norms_find_amaxes = false});
  std::vector<std::unique_ptr<Engine>> segmented;
  for (const char* const segments : {"transformer.h.*", "transformer.h.1.ln_1", "transformer.h.1.mlp"}) {
    segmented.push_back(MakeEngine(GetParam(), {.checkpoint_segments = {segments}}));
  }
  for (int step = 0; step < 2; ++step) {
    const std::vector<Batch> batches = Batches(1);
    const float loss = whole->Step(batches).loss;
    for (const auto& engine : segmented) {
      EXPECT_EQ(engine->Step(batches).loss, loss) << step;
      EXPECT_EQ(DigestOf(*engine), DigestOf(*whole)) << step;
    }
  }
}

TEST_P(NormAmaxesTest, RecordedStepsGiveTheSameBits) {
  GraphCounts() = {};
  const auto alone = MakeEngine(GetParam(), {.norms_find_amaxes = false});
  const auto recorded = MakeEngine(GetParam(), {.with_graphs = true});
  for (int step = 0; step < 6; ++step) {
    const std::vector<Batch> batches = Batches(1);
    EXPECT_EQ(recorded->Step(batches).loss, alone->Step(batches).loss) << step;
    EXPECT_EQ(recorded->graph_failure(), "");
  }
  EXPECT_GT(GraphCounts().replays, 0);
  EXPECT_EQ(DigestOf(*recorded), DigestOf(*alone));
}

// The first step is a canary step, which compares FP8 with exact products and demotes all layers.
TEST_P(NormAmaxesTest, ADemotedLayerIgnoresThem) {
  const auto ours = MakeEngine(GetParam(), {.canary_every_steps = 100});
  const auto alone = MakeEngine(GetParam(), {.norms_find_amaxes = false, .canary_every_steps = 100});
  for (int step = 0; step < 3; ++step) {
    const std::vector<Batch> batches = Batches(1);
    const StepResult expected = alone->Step(batches);
    Cells() = {};
    const StepResult result = ours->Step(batches);
    EXPECT_EQ(std::ssize(Cells().known), step == 0 ? kLayersBehindNorms : 0) << step;
    EXPECT_EQ(result.loss, expected.loss) << step;
    ASSERT_EQ(result.fp8.size(), expected.fp8.size());
    for (size_t i = 0; i < result.fp8.size(); ++i) {
      EXPECT_TRUE(result.fp8[i].demoted);
      EXPECT_TRUE(std::equal(std::begin(result.fp8[i].errors), std::end(result.fp8[i].errors), expected.fp8[i].errors));
    }
  }
  EXPECT_EQ(DigestOf(*ours), DigestOf(*alone));
}

// The sampler looks at every third row and not at row 1, which becomes NaN in the norm. The amax is then NaN too, and
// so is the whole result of the FP8 layer (here a product with the amax). The fault is reported for the layer.
TEST(NormAmaxes, AreNotReportedAsTheOriginOfAFault) {
  constexpr int64_t kRows = 20'000;
  const graph::TensorType type = {graph::Dtype::kFloat32, {graph::Dim::Batch(), 8}};
  graph::Graph program("layer");
  const graph::ValueId x = program.AddInput("x", type);
  const graph::ValueId norm = program.AddNode({.op = "ampd.layer_norm",
                                               .arguments = {{"input", x},
                                                             {"normalized_shape", std::vector<int64_t>{8}},
                                                             {"weight", {}},
                                                             {"bias", {}},
                                                             {"eps", 1e-5},
                                                             {"dtype", graph::Dtype::kFloat32}},
                                               .outputs = {},
                                               .module_path = "norm"},
                                              "norm", type);
  program.AddOutput("y", program.AddNode({.op = "ampd.linear_fp8",
                                          .arguments = {{"input", norm}, {"forward", true}},
                                          .outputs = {},
                                          .module_path = "layer"},
                                         "y", type));
  executor::OpRegistry registry;
  RegisterLayerNorm(registry, {});
  registry.Register("ampd.linear_fp8", [](std::vector<c10::IValue>& stack) {
    at::Tensor product = stack[0].toTensor().mul(stack[2].toTensor());
    stack = {std::move(product)};
  });
  const auto executor = executor::Executor::Create(graph::WithNormAmaxes(program), registry).value();
  ASSERT_TRUE(executor->Bind({}).ok());
  ActivationSampler sampler(executor->graph());
  at::Tensor input = at::randn({kRows, 8});
  input[1][0] = std::numeric_limits<float>::infinity();
  executor->Run({input}, &sampler);
  ASSERT_TRUE(sampler.Fault().has_value());
  EXPECT_EQ(sampler.Fault()->value, "y");
  EXPECT_EQ(sampler.Fault()->module, "layer");
}

TEST(NormAmaxes, BlocksOfNumbersHaveNone) {
  Cells() = {};
  MakeEngine("fp8-block", {})->Step(Batches(1));
  EXPECT_TRUE(Cells().known.empty() && Cells().found.empty());
}

}  // namespace
}  // namespace ampd::amp
