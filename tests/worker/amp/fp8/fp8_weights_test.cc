// Tests with whole engines that a step quantizes each weight only once, and that it nevertheless computes with the FP8
// numbers of the current weights. The CUDA kernels run here over an emulated CUDA on CPU tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/builder/builder.h"
#include "graph/heads.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/amp/small_problem.h"

namespace ampd::amp {
namespace {

constexpr int64_t kBatchSize = 16;
constexpr int64_t kNarrow = 128;
constexpr int64_t kWide = 256;
constexpr int64_t kFp8Layers = 2;

// A call of a quantizing kernel.
struct Call {
  kernels::CudaFp8Matrix matrix;
  const float* amax = nullptr;  // Set only for quantize_tensor.

  bool reads_weight() const { return matrix.rows * matrix.columns == kNarrow * kWide; }
};

// The list of all calls of quantizing kernels. CountingKernels() fills the list, and tests clear it.
std::vector<Call>& Calls() {
  static std::vector<Call> calls;
  return calls;
}

int64_t NumWeights() {
  return std::count_if(Calls().begin(), Calls().end(), [](const Call& call) { return call.reads_weight(); });
}

// Returns the emulated kernels, whose launches can be recorded. Each call of a quantizing kernel is added to Calls().
// A replay of recorded launches adds no calls.
const kernels::CudaKernels* CountingKernels() {
  static const kernels::CudaFp8Kernels counting = {
      .quantize_tensor =
          [](const kernels::CudaFp8Matrix* matrix, const float* known_scale, float* amax, bool is_amax_known,
             void* stream) {
            EXPECT_EQ(*amax, 0);
            Calls().push_back({*matrix, amax});
            return RecordableKernels()->fp8->quantize_tensor(matrix, known_scale, amax, is_amax_known, stream);
          },
      .quantize_rows =
          [](const kernels::CudaFp8Matrix* matrix, void* stream) {
            Calls().push_back({*matrix});
            return RecordableKernels()->fp8->quantize_rows(matrix, stream);
          },
      .quantize_squares =
          [](const kernels::CudaFp8Matrix* matrix, void* stream) {
            Calls().push_back({*matrix});
            return RecordableKernels()->fp8->quantize_squares(matrix, stream);
          }};
  static const kernels::CudaKernels table = [] {
    kernels::CudaKernels made = *RecordableKernels();
    made.fp8 = &counting;
    return made;
  }();
  return &table;
}

// A network of four layers, of which the two in the middle compute in FP8. The weight of the second of these is stored
// transposed, as in GPT-2.
graph::Graph Model() {
  graph::GraphBuilder b("layers");
  graph::ValueId x = b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 1, kImageSize, kImageSize}});
  x = b.Relu("h.0.relu", b.Linear("h.0.fc", b.Flatten("flatten", x), kNarrow));
  x = b.Relu("h.1.relu", b.Linear("h.1.fc", x, kWide));
  x = b.Relu("h.2.relu", b.Conv1d("h.2.fc", x, kNarrow, graph::Initializer::Normal(0.05)));
  b.Output("logits", b.Linear("h.3.fc", x, kClasses));
  return *std::move(b).Build();
}

struct EngineSetup {
  bool with_cuda = true;
  const StepGraphs* graphs = nullptr;
  std::vector<std::string> segments = {};
};

std::unique_ptr<Engine> MakeEngine(const std::string& preset, const EngineSetup& setup) {
  v1::PrecisionPolicy policy = PresetNamed(preset);
  policy.mutable_fp8()->set_canary_every_steps(0);
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.optimizer.ema_decay = 0.5;
  options.seed = 3;
  options.checkpoint_segments = setup.segments;
  options.device.cuda_kernels = setup.with_cuda ? CountingKernels() : nullptr;
  options.device.graphs = setup.graphs;
  return CpuEngine(Model(), policy, options);
}

std::vector<Batch> Batches(uint64_t step, uint64_t num) {
  std::vector<Batch> batches;
  for (uint64_t i = 0; i < num; ++i) {
    batches.push_back(MakeBatch(100 * step + i, kBatchSize));
  }
  return batches;
}

class Fp8WeightsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { Calls().clear(); }

  static std::unique_ptr<Engine> Make(const EngineSetup& setup = {}) { return MakeEngine(GetParam(), setup); }

  // An engine that has run no step, with another engine's state.
  static std::unique_ptr<Engine> Copy(const Engine& engine, const EngineSetup& setup = {}) {
    auto copy = Make(setup);
    EXPECT_TRUE(copy->ImportState(engine.ExportState()).ok());
    return copy;
  }
};
INSTANTIATE_TEST_SUITE_P(Presets, Fp8WeightsTest, testing::Values("fp8", "fp8-delayed", "fp8-block"));

TEST_P(Fp8WeightsTest, AreQuantizedOnceAStep) {
  const auto engine = Make();
  for (const int64_t num_micro_batches : {1, 4}) {
    Calls().clear();
    engine->Step(Batches(1, static_cast<uint64_t>(num_micro_batches)));
    EXPECT_EQ(NumWeights(), kFp8Layers);
    EXPECT_EQ(std::ssize(Calls()), kFp8Layers + 2 * kFp8Layers * num_micro_batches)
        << "the others are inputs and gradients";
    for (const Call& call : Calls()) {
      const bool has_both = call.matrix.plain.data != nullptr && call.matrix.transposed.data != nullptr;
      EXPECT_TRUE(has_both) << call.matrix.rows << "x" << call.matrix.columns;
    }
  }
}

TEST_P(Fp8WeightsTest, AnEvaluationReadsThemAgain) {
  const auto engine = Make();
  for (int64_t i = 1; i <= 2; ++i) {
    engine->Evaluate(MakeBatch(1, kBatchSize));
    EXPECT_EQ(NumWeights(), i * kFp8Layers);
  }
  EXPECT_TRUE(std::all_of(Calls().begin(), Calls().end(), [](const Call& call) {
    return (call.matrix.plain.data == nullptr) != (call.matrix.transposed.data == nullptr);
  })) << "an evaluation has no backward pass";
}

TEST_P(Fp8WeightsTest, TheAmaxesOfAStepShareOneTensor) {
  const auto engine = Make();
  engine->Step(Batches(0, 4));
  Calls().clear();
  engine->Step(Batches(1, 4));
  std::vector<const float*> cells;
  for (const Call& call : Calls()) {
    if (call.amax != nullptr) {
      cells.push_back(call.amax);
    }
  }
  if (std::string(GetParam()) == "fp8-block") {
    EXPECT_TRUE(cells.empty());
    return;
  }
  ASSERT_EQ(std::ssize(cells), kFp8Layers * 9);
  for (size_t i = 1; i < cells.size(); ++i) {
    ASSERT_EQ(cells[i], cells[i - 1] + 1) << i;
  }
}

TEST_P(Fp8WeightsTest, GiveTheCpuEnginesBits) {
  const auto cpu = Make({.with_cuda = false});
  const auto cuda = Make();
  for (uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(cuda->Step(Batches(step, 4)).loss, cpu->Step(Batches(step, 4)).loss);
  }
  EXPECT_EQ(DigestOf(*cuda), DigestOf(*cpu));
}

// After every change of the weights, the engine must compute the same as its copy: a new engine that has the same state
// and has not quantized any weights before. The changes are an update, a skipped step, an evaluation with averaged
// weights, and an import.
TEST_P(Fp8WeightsTest, AreMadeAnewAfterEveryChange) {
  for (const bool with_cuda : {false, true}) {
    const EngineSetup setup = {.with_cuda = with_cuda};
    const auto engine = Make(setup);
    EngineState first = engine->ExportState();
    const Batch probe = MakeBatch(7, kBatchSize);
    for (uint64_t step = 0; step < 5; ++step) {
      SCOPED_TRACE(absl::StrCat(with_cuda ? "CUDA" : "CPU", ", step ", step));
      if (step == 4) {
        for (const char* name : {"h.1.fc.weight", "h.2.fc.weight"}) {
          first.model.at(name).mul_(-0.5);
        }
        ASSERT_TRUE(engine->ImportState(first).ok());
      }
      const auto copy = Copy(*engine, setup);
      std::vector<Batch> batches = Batches(step, 2);
      if (step == 2) {
        batches[1].images.fill_(std::numeric_limits<float>::infinity());
      }
      const StepResult expected = copy->Step(batches);
      const StepResult result = engine->Step(batches);
      EXPECT_EQ(result.skipped, step == 2);
      EXPECT_TRUE(result.loss == expected.loss || result.skipped) << result.loss << " " << expected.loss;
      EXPECT_EQ(DigestOf(*engine), DigestOf(*copy));
      EXPECT_EQ(engine->Evaluate(probe).loss, Copy(*engine, setup)->Evaluate(probe).loss);
    }
  }
}

TEST_P(Fp8WeightsTest, AreQuantizedInEveryReplay) {
  constexpr int kWarmUps = 3;
  const auto captured = Make({.graphs = RecordedGraphs()});
  const auto eager = Make();
  GraphCounts() = {};
  for (uint64_t step = 0; step < kWarmUps + 4; ++step) {
    Calls().clear();
    const StepResult result = captured->Step(Batches(step, 2));
    EXPECT_EQ(captured->graph_failure(), "");
    EXPECT_EQ(NumWeights(), step <= kWarmUps ? kFp8Layers : 0) << "a replay repeats the launches of step " << kWarmUps;
    EXPECT_EQ(result.loss, eager->Step(Batches(step, 2)).loss) << step;
    EXPECT_EQ(DigestOf(*captured), DigestOf(*eager)) << step;
  }
  EXPECT_EQ(GraphCounts().replays, 4);
}

TEST_P(Fp8WeightsTest, CheckpointSegmentsUseThemAgain) {
  const auto plain = Make();
  const auto segmented = Make({.segments = {"h.*"}});
  for (uint64_t step = 0; step < 3; ++step) {
    const float loss = plain->Step(Batches(step, 2)).loss;
    Calls().clear();
    EXPECT_EQ(segmented->Step(Batches(step, 2)).loss, loss);
    EXPECT_EQ(NumWeights(), kFp8Layers);
    EXPECT_EQ(std::ssize(Calls()), kFp8Layers + 3 * kFp8Layers * 2) << "inputs are quantized again";
  }
  EXPECT_EQ(DigestOf(*segmented), DigestOf(*plain));
}

// A micro-batch without labels runs forward only, and records no amax. If it is the first micro-batch of a step, the
// second one records the amaxes of the weights.
TEST_P(Fp8WeightsTest, TheirAmaxIsRecordedByTheFirstPassThatTrains) {
  const auto forward_first = Make();
  const auto forward_last = Make();
  for (uint64_t step = 0; step < 2; ++step) {
    std::vector<Batch> batches = Batches(step, 2);
    batches[0].labels.fill_(graph::kIgnoredLabel);
    const float loss = forward_first->Step(batches).loss;
    std::swap(batches[0], batches[1]);
    EXPECT_EQ(forward_last->Step(batches).loss, loss);
  }
  EXPECT_EQ(DigestOf(*forward_first), DigestOf(*forward_last));
}

// A model with two losses. Both losses depend on the same FP8 layer, but only the first loss trains it.
graph::Graph SharedLayer() {
  graph::GraphBuilder b("shared");
  const graph::ValueId labels = b.Input("labels", {graph::Dtype::kInt64, {graph::Dim::Batch()}});
  const graph::ValueId images =
      b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 1, kImageSize, kImageSize}});
  const graph::ValueId weight = b.Parameter("first.1.weight", {kWide, kNarrow}, graph::Initializer::Normal(0.1));
  for (const std::string tower : {"first", "second"}) {
    graph::ValueId x = b.Relu(tower + ".relu", b.Linear(tower + ".0", b.Flatten(tower + ".flat", images), kNarrow));
    x = b.Linear(tower + ".2", b.TiedLinear("first.1", x, weight), kClasses);
    b.Output(tower + "_loss", b.CrossEntropy("", x, labels));
  }
  return *std::move(b).Build();
}

std::unique_ptr<Engine> TwoPhases(const std::string& preset, double learning_rate) {
  EngineOptions options;
  options.device.cuda_kernels = CountingKernels();
  for (const std::string tower : {"first", "second"}) {
    PhaseOptions& phase = options.phases.emplace_back();
    phase.name = tower;
    phase.loss = tower + "_loss";
    phase.parameters = tower + ".*";
    phase.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = tower == "first" ? learning_rate : 0};
  }
  const graph::Graph model = SharedLayer();
  return Engine::Create(model, Resolved(PresetNamed(preset), model), options).value();
}

// A step has two phases, one for each loss. The second phase must compute with the weights that the first phase has
// just updated.
TEST(Fp8Weights, OfOnePhaseAreMadeAnewForTheNext) {
  for (const char* preset : {"fp8", "fp8-block"}) {
    const auto engine = TwoPhases(preset, 1);
    ASSERT_FALSE(engine->ExportState().fp8.empty());
    const StepResult result = engine->Step(Batches(1, 2));
    const auto after_update = TwoPhases(preset, 0);
    ASSERT_TRUE(after_update->ImportState(engine->ExportState()).ok());
    const StepResult expected = after_update->Step(Batches(1, 2));
    EXPECT_EQ(result.phases[1].loss, expected.phases[1].loss) << preset;
    EXPECT_NE(result.phases[0].loss, expected.phases[0].loss) << "the update changes losses";
  }
}

}  // namespace
}  // namespace ampd::amp
