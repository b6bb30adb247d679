// Tests FP8 layers over whole engine steps: the state that they carry from step to step, and which steps may begin
// before the results of the previous step are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/equal.h"
#include "absl/strings/str_format.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "models/models.h"
#include "precision/policy.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"

namespace ampd::amp {
namespace {

using testing::ElementsAreArray;

constexpr size_t kCanaryEverySteps = 4;
constexpr int kHistory = 3;
constexpr double kNoBound = 1e9;

// A network of six linear layers. The layers between the first and the last compute in FP8 under every FP8 preset.
graph::Graph DeepMlp() {
  v1::ModelSpec spec;
  spec.mutable_mlp()->set_in_features(kImageSize * kImageSize);
  for (int layer = 0; layer < 5; ++layer) {
    spec.mutable_mlp()->add_hidden(128);
  }
  spec.mutable_mlp()->set_num_classes(kClasses);
  return *models::BuildModel(spec);
}

std::unique_ptr<Engine> MakeEngine(const std::string& preset, double canary_bound) {
  v1::PrecisionPolicy policy = PresetNamed(preset);
  policy.mutable_fp8()->set_canary_every_steps(static_cast<int>(kCanaryEverySteps));
  policy.mutable_fp8()->set_canary_bound(canary_bound);
  policy.mutable_fp8()->set_amax_history_length(kHistory);
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.seed = 3;
  return CpuEngine(DeepMlp(), policy, options);
}

// Returns whether a step is made to overflow, so that it is skipped. These are the first step, the two steps after step
// 4, and the last step. Steps 0, 4 and 8 are canary steps, which compare FP8 with bf16.
bool IsBad(int step) { return step == 0 || step == 5 || step == 6 || step == 11; }
constexpr int kSteps = 12;

Batch BatchOf(int step) {
  Batch batch = MakeBatch(static_cast<uint64_t>(step), 16);
  batch.images = batch.images.flatten(1);
  if (IsBad(step)) {
    batch.images.fill_(std::numeric_limits<float>::infinity());
  }
  return batch;
}

// A step's result as text, which shows every bit.
std::string TextOf(const StepResult& result) {
  std::string text = absl::StrFormat("loss=%a norm=%a rate=%a skipped=%d overflow=%s", result.loss, result.grad_norm,
                                     result.learning_rate, static_cast<int>(result.skipped), result.overflow_parameter);
  for (const Fp8Finding& finding : result.fp8) {
    absl::StrAppendFormat(&text, "; %s demoted=%d", finding.module, static_cast<int>(finding.demoted));
    for (int i = 0; i < kFp8Products; ++i) {
      absl::StrAppendFormat(&text, " %a/%a/%a", finding.errors[i], finding.underflow[i], finding.saturation[i]);
    }
  }
  return text;
}

std::map<std::string, std::string> BytesOf(const TensorMap& tensors) {
  std::map<std::string, std::string> bytes;
  for (const auto& [name, tensor] : tensors) {
    bytes[name] = Bytes(tensor);
  }
  return bytes;
}

struct Trajectory {
  std::vector<std::string> steps;
  std::vector<std::vector<Fp8Finding>> findings;  // The findings of each step.
  int num_begun_ahead = 0;
  std::string digest;
  std::map<std::string, std::string> fp8;
};

// Trains for kSteps steps. Reads each step's result immediately or, if `ahead` is true, as late as the engine allows.
Trajectory Train(const std::string& preset, double canary_bound, bool ahead) {
  const auto engine = MakeEngine(preset, canary_bound);
  Trajectory run;
  const auto take_down_to = [&](int num_left) {
    while (engine->num_pending() > num_left) {
      const StepResult result = engine->AwaitStep();
      run.steps.push_back(TextOf(result));
      run.findings.push_back(result.fp8);
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    engine->Enqueue({BatchOf(step)});
    run.num_begun_ahead += engine->num_pending() > 1 ? 1 : 0;
    take_down_to(ahead ? engine->max_pending() : 0);
  }
  take_down_to(0);
  run.digest = DigestOf(*engine);
  run.fp8 = BytesOf(engine->ExportState().fp8);
  return run;
}

double LargestError(const Fp8Finding& finding) { return *std::max_element(finding.errors, finding.errors + 3); }

// Returns a bound for the layers' FP8 errors that some layers exceed and others do not. The errors are measured in the
// second canary step (a step that compares FP8 with bf16), because the first canary step is skipped.
double BoundThatDemotesSome(const std::string& preset) {
  const std::vector<Fp8Finding> findings = Train(preset, kNoBound, false).findings[kCanaryEverySteps];
  double least = kNoBound;
  double most = 0;
  for (const Fp8Finding& finding : findings) {
    least = std::min(least, LargestError(finding));
    most = std::max(most, LargestError(finding));
  }
  return (least + most) / 2;
}

class Fp8StepsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, Fp8StepsTest, testing::Values("fp8", "fp8-delayed", "fp8-block"));

TEST_P(Fp8StepsTest, BegunBeforeTheLastOneIsReadGiveTheSameBits) {
  const double bound = BoundThatDemotesSome(GetParam());
  const Trajectory one_by_one = Train(GetParam(), bound, false);
  const Trajectory ahead = Train(GetParam(), bound, true);
  EXPECT_EQ(one_by_one.num_begun_ahead, 0);
  EXPECT_EQ(ahead.num_begun_ahead, 8) << "all but the first and those behind the canary's: 1, 5, 9";
  EXPECT_THAT(ahead.steps, ElementsAreArray(one_by_one.steps));
  EXPECT_EQ(ahead.digest, one_by_one.digest);
  EXPECT_EQ(ahead.fp8, one_by_one.fp8);
  const std::vector<Fp8Finding>& first = one_by_one.findings[kCanaryEverySteps];
  const auto num_demoted = static_cast<size_t>(
      std::count_if(first.begin(), first.end(), [](const Fp8Finding& finding) { return finding.demoted; }));
  EXPECT_GT(num_demoted, 0U) << "the steps behind it must compute in another way";
  EXPECT_LT(num_demoted, first.size());
  EXPECT_EQ(one_by_one.findings[2 * kCanaryEverySteps].size(), first.size() - num_demoted);
  EXPECT_THAT(one_by_one.findings[0], testing::IsEmpty()) << "a skipped step judges nobody";
}

TEST_P(Fp8StepsTest, TheCanarysIsTakenBeforeAnotherBegins) {
  const auto engine = MakeEngine(GetParam(), kNoBound);
  EXPECT_EQ(engine->max_pending(), 1);
  engine->Enqueue({BatchOf(1)});
  EXPECT_EQ(engine->max_pending(), 0);
  EXPECT_THROW(engine->Enqueue({BatchOf(2)}), c10::Error);
  EXPECT_FALSE(engine->AwaitStep().fp8.empty());
  EXPECT_EQ(engine->max_pending(), 1);
  for (int step = 1; step < static_cast<int>(kCanaryEverySteps); ++step) {
    engine->Enqueue({BatchOf(step)});
    EXPECT_EQ(engine->max_pending(), 1) << step;
    if (engine->num_pending() > 1) {
      EXPECT_TRUE(engine->AwaitStep().fp8.empty()) << step;
    }
  }
  engine->Enqueue({BatchOf(4)});
  EXPECT_EQ(engine->max_pending(), 0);
  EXPECT_TRUE(engine->AwaitStep().fp8.empty()) << "that of the step before the canary's";
  EXPECT_EQ(engine->max_pending(), 0);
  EXPECT_FALSE(engine->AwaitStep().fp8.empty());
}

// Returns the FP8 scale if the largest amax in the history is `amax`. `largest`: the largest number of the FP8 format.
float ScaleOf(float amax, float largest) { return 1.0F / amax * largest; }

// An applied step puts its amax (the largest magnitude) first in the history, and the scale is computed from the
// history. A skipped step changes neither.
TEST(Fp8Steps, HistoriesMoveWithAppliedStepsOnlyAndScalesFollowThem) {
  const auto engine = MakeEngine("fp8-delayed", kNoBound);
  constexpr float kLargest[] = {448, 448, 57344};
  for (int step = 0; step < kSteps; ++step) {
    const EngineState before = engine->ExportState();
    ASSERT_EQ(engine->Step({BatchOf(step)}).skipped, IsBad(step)) << step;
    const EngineState after = engine->ExportState();
    if (IsBad(step)) {
      EXPECT_EQ(BytesOf(after.fp8), BytesOf(before.fp8)) << step;
      continue;
    }
    for (const char* module : {"layers.2", "layers.4", "layers.6", "layers.8"}) {
      SCOPED_TRACE(absl::StrFormat("step %d, %s", step, module));
      const at::Tensor history = after.fp8.at(absl::StrFormat("%s.amax_history", module));  // (3, H)
      const at::Tensor scale = after.fp8.at(absl::StrFormat("%s.scale", module));           // (3)
      const at::Tensor past = before.fp8.at(absl::StrFormat("%s.amax_history", module));
      EXPECT_TRUE(at::equal(history.narrow(1, 1, kHistory - 1), past.narrow(1, 0, kHistory - 1)));
      for (int64_t operand = 0; operand < kFp8Operands; ++operand) {
        const auto amax = history[operand].max().item<float>();
        EXPECT_GT(history[operand][0].item<float>(), 0);
        EXPECT_EQ(scale[operand].item<float>(), ScaleOf(amax, kLargest[operand])) << operand;
      }
      const auto weight = before.model.at(absl::StrFormat("%s.weight", module)).abs().max().item<float>();
      EXPECT_NEAR(history[1][0].item<float>() / weight, 1, 0x1p-7) << "of the weight in bf16";
    }
  }
}

// A model of two networks with one loss each. Their middle layers compute in FP8.
graph::Graph TwoTowers() {
  using graph::Dim;
  graph::GraphBuilder b("two_towers");
  const graph::ValueId labels = b.Input("labels", {graph::Dtype::kInt64, {Dim::Batch()}});
  for (const auto& [tower, input] : {std::pair("first", "images"), std::pair("second", "noise")}) {
    const auto path = [tower = tower](const char* part) { return absl::StrFormat("%s.%s", tower, part); };
    graph::ValueId x = b.Input(input, {graph::Dtype::kFloat32, {Dim::Batch(), 64}});
    x = b.Relu(path("relu0"), b.Linear(path("0"), x, 128));
    x = b.Relu(path("relu1"), b.Linear(path("1"), x, 128));
    b.Output(absl::StrFormat("%s_loss", tower), b.CrossEntropy("", b.Linear(path("2"), x, kClasses), labels));
  }
  return std::move(b).Build().value();
}

std::unique_ptr<Engine> TwoPhases() {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  EngineOptions options;
  for (const std::string tower : {"first", "second"}) {
    PhaseOptions& phase = options.phases.emplace_back();
    phase.name = tower;
    phase.loss = tower + "_loss";
    phase.parameters = tower + ".*";
    phase.optimizer = {.kind = OptimizerConfig::Kind::kAdam, .learning_rate = 1e-3};
  }
  const graph::Graph model = TwoTowers();
  return Engine::Create(
             model,
             precision::ResolvePolicy(PresetNamed("fp8-delayed"), model, cpu, precision::OptimizerKind::kAdam).value(),
             options)
      .value();
}

TEST(Fp8Steps, OneSkippedPhaseOfTwoLeavesScalesAndHistoriesAlone) {
  const auto engine = TwoPhases();
  Batch batch = BatchOf(1);
  batch.others["noise"] = BatchOf(2).images;
  EXPECT_FALSE(engine->Step({batch}).skipped);
  const EngineState before = engine->ExportState();
  ASSERT_THAT(before.fp8, testing::Contains(testing::Key("second.1.scale")));
  batch.others["noise"] = BatchOf(0).images;
  const StepResult result = engine->Step({batch});
  EXPECT_FALSE(result.phases[0].skipped);
  EXPECT_TRUE(result.phases[1].skipped);
  const EngineState after = engine->ExportState();
  EXPECT_NE(Bytes(after.model.at("first.1.weight")), Bytes(before.model.at("first.1.weight")));
  EXPECT_EQ(BytesOf(after.fp8), BytesOf(before.fp8));
}

}  // namespace
}  // namespace ampd::amp
