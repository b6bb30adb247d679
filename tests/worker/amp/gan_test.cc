// Tests a step with two losses and two optimizers under one loss scale: a small GAN, with a forced overflow in one of
// the losses.

#include "models/gan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/isfinite.h"
#include "ampd/v1/precision.pb.h"
#include "base/error.h"
#include "base/random.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

using ::testing::HasSubstr;
using Rule = v1::LossScale::OptimizerSkip;

constexpr int64_t kNoise = 6;
constexpr int64_t kBatch = 8;
constexpr double kRate = 0x1p-7;
constexpr int64_t kWarmup = 1000;
// Positions of the phases (one for each loss) in a step.
constexpr size_t kDiscriminator = 0;
constexpr size_t kGenerator = 1;

graph::Graph Gan() {
  return models::BuildGan({.noise_features = kNoise, .generator_width = 24, .discriminator_width = 4}).value();
}

struct Fault {
  bool discriminator = false;
  bool generator = false;
};

double Uniform(SeededRandom& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-52 - 1; }

// Returns a batch of noise and of real images, which are brighter to the right. `fault` makes the gradients of one
// player non-finite. The discriminator's fault is a NaN in an image, which only the discriminator's loss reads. The
// generator's fault is in the first feature of the noise: it is 3e38 instead of 0. The weights that read this feature
// are always 0. So the fault does not change the generator's output, but the gradient of these weights overflows.
Batch MakeGanBatch(uint64_t seed, const Fault& fault = {}) {
  SeededRandom random(seed);
  Batch batch;
  batch.images = at::empty({kBatch, 1, kImageSize, kImageSize}, at::kFloat);
  batch.others["noise"] = at::empty({kBatch, kNoise}, at::kFloat);
  auto* pixels = batch.images.data_ptr<float>();
  for (int64_t i = 0; i < batch.images.numel(); ++i) {
    pixels[i] = static_cast<float>(0.3 * Uniform(random) + static_cast<double>(i % kImageSize) / kImageSize);
  }
  auto* noise = batch.others["noise"].data_ptr<float>();
  for (int64_t i = 0; i < batch.others["noise"].numel(); ++i) {
    noise[i] = i % kNoise == 0 ? 0 : static_cast<float>(1.7 * Uniform(random));
  }
  if (fault.discriminator) {
    pixels[5] = std::numeric_limits<float>::quiet_NaN();
  }
  if (fault.generator) {
    noise[0] = 3e38f;
  }
  return batch;
}

std::vector<PhaseOptions> Phases(double discriminator_rate = kRate) {
  PhaseOptions discriminator{.name = "discriminator", .loss = "discriminator_loss", .parameters = "discriminator.*"};
  discriminator.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = discriminator_rate, .momentum = 0.5};
  PhaseOptions generator{.name = "generator", .loss = "generator_loss", .parameters = "generator.*"};
  generator.optimizer = {.kind = OptimizerConfig::Kind::kAdam, .learning_rate = 2 * kRate, .beta1 = 0.5};
  for (PhaseOptions* phase : {&discriminator, &generator}) {
    phase->schedule = {.warmup_steps = kWarmup, .total_steps = 2 * kWarmup};
  }
  return {discriminator, generator};
}

absl::StatusOr<std::unique_ptr<Engine>> TryEngine(const v1::PrecisionPolicy& policy,
                                                  const std::vector<PhaseOptions>& phases, uint64_t seed = 3) {
  EngineOptions options;
  options.seed = seed;
  options.phases = phases;
  return Engine::Create(Gan(), Resolved(policy, Gan()), options);
}

std::unique_ptr<Engine> MakeEngine(const v1::PrecisionPolicy& policy, uint64_t seed = 3,
                                   const std::vector<PhaseOptions>& phases = Phases()) {
  auto engine = TryEngine(policy, phases, seed);
  EXPECT_TRUE(engine.ok()) << engine.status();
  EngineState state = (*engine)->ExportState();
  state.model.at("generator.0.weight").select(1, 0).zero_();
  EXPECT_TRUE((*engine)->ImportState(state).ok());
  return *std::move(engine);
}

// A policy with a dynamic scale. At scales between 2^10 and 2^70, the generator's fault overflows and nothing else
// does.
v1::PrecisionPolicy Dynamic(const std::string& preset, Rule rule, double initial = 0x1p40) {
  v1::PrecisionPolicy policy = PresetNamed(preset);
  policy.mutable_loss_scale()->set_optimizer_skip(rule);
  policy.mutable_loss_scale()->mutable_dynamic()->set_initial(initial);
  policy.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(3);
  return policy;
}

constexpr char kCount[] = "discriminator.3.num_batches_tracked";

// Returns the bytes of the weights and moments of one player, the discriminator or the generator.
std::string BytesOf(const EngineState& state, const std::string& player) {
  std::string bytes;
  for (const TensorMap* map : {&state.model, &state.optimizer}) {
    for (const auto& [name, tensor] : *map) {
      if (name.starts_with(player + ".") && name.find("running_") == std::string::npos && name != kCount) {
        bytes += Bytes(tensor);
      }
    }
  }
  return bytes;
}

void ExpectSameTensors(const EngineState& a, const EngineState& b) {
  for (const auto& [ours, theirs] : {std::pair(&a.model, &b.model), {&a.optimizer, &b.optimizer}}) {
    ASSERT_EQ(ours->size(), theirs->size());
    for (const auto& [name, tensor] : *ours) {
      EXPECT_EQ(Bytes(tensor), Bytes(theirs->at(name))) << name;
    }
  }
}

// An independent implementation of the rules of torch.amp.GradScaler and of Apex for two optimizers.
struct TwoOptimizersModel {
  bool together = false;
  float scale = 0x1p40f;
  int good_steps = 0;
  int64_t applied[2] = {0, 0};

  // Returns which of the two optimizers skip the step.
  std::vector<bool> Step(bool first_overflows, bool second_overflows) {
    const bool any = first_overflows || second_overflows;
    const std::vector<bool> skipped =
        together ? std::vector<bool>{any, any} : std::vector<bool>{first_overflows, second_overflows};
    for (size_t i = 0; i < 2; ++i) {
      applied[i] += skipped[i] ? 0 : 1;
    }
    good_steps = any ? 0 : good_steps + 1;
    if (any) {
      scale /= 2;
    } else if (good_steps == 3) {
      scale *= 2;
      good_steps = 0;
    }
    return skipped;
  }
};

class PerRule : public testing::TestWithParam<Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, PerRule, testing::Values(v1::LossScale::EACH_ALONE, v1::LossScale::ALL_TOGETHER),
                         [](const auto& info) { return v1::LossScale::OptimizerSkip_Name(info.param); });

TEST_P(PerRule, TraceWithForcedOverflowsIsThatOfTheRule) {
  auto engine = MakeEngine(Dynamic("fp32", GetParam()));
  TwoOptimizersModel model{.together = GetParam() == v1::LossScale::ALL_TOGETHER};
  SeededRandom random(17);
  int num_of_kind[2][2] = {};
  for (uint64_t step = 0; step < 200; ++step) {
    const Fault fault{.discriminator = random.Next() % 10 == 0, .generator = random.Next() % 10 == 0};
    ++num_of_kind[fault.discriminator][fault.generator];
    const EngineState before = engine->ExportState();
    const float scale = model.scale;
    const int64_t applied_before[2] = {model.applied[0], model.applied[1]};
    const std::vector<bool> skipped = model.Step(fault.discriminator, fault.generator);
    const StepResult result = engine->Step({MakeGanBatch(step, fault)}, step);
    ASSERT_EQ(result.phases.size(), 2u);
    EXPECT_EQ(result.phases[kDiscriminator].num_overflow_parameters > 0, fault.discriminator) << "step " << step;
    EXPECT_EQ(result.phases[kGenerator].num_overflow_parameters > 0, fault.generator) << "step " << step;
    EXPECT_EQ(result.loss_scale, scale) << "step " << step;
    EXPECT_EQ(result.skipped, skipped[0] || skipped[1]) << "step " << step;
    const EngineState after = engine->ExportState();
    EXPECT_EQ(after.scaler.scale, model.scale) << "step " << step;
    EXPECT_EQ(after.model.at(kCount).item<int64_t>(), 3 * (static_cast<int64_t>(step) + 1)) << "skipped or not";
    for (size_t i = 0; i < 2; ++i) {
      const PhaseResult& phase = result.phases[i];
      const double base_rate = i == kGenerator ? 2 * kRate : kRate;
      EXPECT_EQ(phase.skipped, skipped[i]) << phase.phase << " step " << step;
      EXPECT_EQ(after.applied_by_phase.at(phase.phase), model.applied[i]) << phase.phase << " step " << step;
      EXPECT_DOUBLE_EQ(phase.learning_rate,
                       base_rate * static_cast<double>(applied_before[i] + 1) / static_cast<double>(kWarmup));
      EXPECT_EQ(BytesOf(before, phase.phase) == BytesOf(after, phase.phase), skipped[i]) << phase.phase << " " << step;
    }
  }
  EXPECT_GT(num_of_kind[1][0], 5);
  EXPECT_GT(num_of_kind[0][1], 5);
  EXPECT_GT(num_of_kind[1][1], 0);
  EXPECT_GT(engine->applied_steps(), 100);
  EXPECT_EQ(engine->applied_steps() + engine->skipped_steps(), 200);
}

TEST_P(PerRule, AnOverflowIsAttributedToItsPhase) {
  auto engine = MakeEngine(Dynamic("fp32", GetParam()));
  const StepResult result = engine->Step({MakeGanBatch(1, {.discriminator = false, .generator = true})});
  EXPECT_EQ(result.phase, "generator");
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.overflow_parameter, "generator.0.weight");
  EXPECT_EQ(result.overflow_module, "generator.0");
  EXPECT_EQ(result.num_overflow_parameters, 1);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(result.phases[kDiscriminator].num_overflow_parameters, 0);
  EXPECT_TRUE(std::isfinite(result.phases[kDiscriminator].grad_norm));
}

TEST_P(PerRule, TrainingGoesOnBitForBitFromAnExportedState) {
  for (const char* preset : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(preset);
    const v1::PrecisionPolicy policy = Dynamic(preset, GetParam(), 0x1p20);
    // The discriminator's phase is skipped more often than the generator's, so that their counts of applied steps
    // differ.
    const auto batch = [](uint64_t step) { return MakeGanBatch(step, {.discriminator = step % 3 == 0}); };
    auto whole = MakeEngine(policy);
    for (uint64_t step = 0; step < 12; ++step) {
      whole->Step({batch(step), batch(100 + step)}, step);
    }
    const EngineState state = whole->ExportState();
    auto resumed = MakeEngine(policy, /*seed=*/99);
    ASSERT_NE(DigestOf(*resumed), DigestOf(*whole));
    ASSERT_TRUE(resumed->ImportState(state).ok());
    for (uint64_t step = 12; step < 20; ++step) {
      const StepResult a = whole->Step({batch(step), batch(100 + step)}, step);
      const StepResult b = resumed->Step({batch(step), batch(100 + step)}, step);
      EXPECT_EQ(a.phases[kGenerator].loss, b.phases[kGenerator].loss) << "step " << step;
      EXPECT_EQ(a.phases[kGenerator].learning_rate, b.phases[kGenerator].learning_rate) << "step " << step;
      EXPECT_EQ(DigestOf(*whole), DigestOf(*resumed)) << "step " << step;
    }
  }
}

TEST(EachAlone, CountsAreThePhasesOwn) {
  auto engine = MakeEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE));
  for (uint64_t step = 0; step < 6; ++step) {
    engine->Step({MakeGanBatch(step, {.discriminator = step < 2, .generator = step == 5})});
  }
  const EngineState state = engine->ExportState();
  EXPECT_EQ(state.applied_by_phase.at("discriminator"), 4);
  EXPECT_EQ(state.applied_by_phase.at("generator"), 5);
  EXPECT_EQ(state.applied_steps, 3);
  EXPECT_EQ(state.skipped_steps, 3);
}

// Under EACH_ALONE, a phase reads the weights that earlier phases of the step have updated. Under ALL_TOGETHER, it
// reads the weights from before the step.
TEST(Phases, RunInOrderUnderEachAloneAndOnTheSameWeightsUnderAllTogether) {
  const auto losses = [](Rule rule, double discriminator_rate) {
    auto engine = MakeEngine(Dynamic("fp32", rule), 3, Phases(discriminator_rate));
    const StepResult result = engine->Step({MakeGanBatch(1)});
    return std::pair(result.phases[kDiscriminator].loss, result.phases[kGenerator].loss);
  };
  const auto alone = losses(v1::LossScale::EACH_ALONE, 100);
  const auto together = losses(v1::LossScale::ALL_TOGETHER, 100);
  const auto still = losses(v1::LossScale::EACH_ALONE, 0);
  EXPECT_EQ(alone.first, together.first);
  EXPECT_NE(alone.second, together.second);
  EXPECT_EQ(still.second, together.second);
}

TEST(Phases, HaveTheGradientsOfTheirOwnLossAlone) {
  std::vector<PhaseOptions> still = Phases(0);
  still[kGenerator].optimizer.learning_rate = 0;
  auto engine = MakeEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE), 3, still);
  const StepResult first = engine->Step({MakeGanBatch(1)});
  const StepResult second = engine->Step({MakeGanBatch(1)});
  for (const size_t phase : {kDiscriminator, kGenerator}) {
    EXPECT_GT(first.phases[phase].grad_norm, 0);
    EXPECT_EQ(second.phases[phase].grad_norm, first.phases[phase].grad_norm) << first.phases[phase].phase;
  }
}

TEST(SkippedPhase, LeavesNoTraceOfWhatItsRunSaw) {
  auto one = MakeEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE));
  auto other = MakeEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE));
  const EngineState before = one->ExportState();
  // The two engines get different images. For one engine the fault is in the first micro-batch, for the other in the
  // second.
  const Batch bad = MakeGanBatch(1, {.discriminator = true});
  const Batch good = MakeGanBatch(2);
  Batch bad_elsewhere = MakeGanBatch(3, {.discriminator = true});
  Batch good_elsewhere = MakeGanBatch(4);
  good_elsewhere.others["noise"] = bad.others.at("noise");
  bad_elsewhere.others["noise"] = good.others.at("noise");
  EXPECT_TRUE(one->Step({bad, good}).phases[kDiscriminator].skipped);
  EXPECT_TRUE(other->Step({good_elsewhere, bad_elsewhere}).phases[kDiscriminator].skipped);
  const EngineState after = one->ExportState();
  ExpectSameTensors(after, other->ExportState());
  EXPECT_TRUE(at::isfinite(after.model.at("discriminator.3.running_mean")).all().item<bool>());
  // The phases of the discriminator and of the generator both run this batch norm, and so update its running
  // statistics. The step undid the updates of the discriminator's phase, which was skipped, but kept those of the
  // generator's phase.
  EXPECT_NE(Bytes(after.model.at("discriminator.3.running_mean")),
            Bytes(before.model.at("discriminator.3.running_mean")));
  EXPECT_NE(BytesOf(after, "generator"), BytesOf(before, "generator"));
}

TEST(SkippedPhase, OfAllTogetherOrOfBothLeavesNoBitBehindButTheScaleAndTheCountOfBatches) {
  const std::pair<Rule, Fault> cases[] = {{v1::LossScale::ALL_TOGETHER, {.discriminator = true}},
                                          {v1::LossScale::ALL_TOGETHER, {.generator = true}},
                                          {v1::LossScale::EACH_ALONE, {.discriminator = true, .generator = true}}};
  for (const auto& [rule, fault] : cases) {
    auto engine = MakeEngine(Dynamic("fp32", rule));
    engine->Step({MakeGanBatch(1)});
    EngineState before = engine->ExportState();
    engine->Step({MakeGanBatch(2, fault)});
    EngineState after = engine->ExportState();
    EXPECT_EQ(before.model.extract(kCount).mapped().item<int64_t>(), 3);
    EXPECT_EQ(after.model.extract(kCount).mapped().item<int64_t>(), 6);
    ExpectSameTensors(before, after);
    EXPECT_EQ(after.applied_by_phase, before.applied_by_phase);
    EXPECT_EQ(after.scaler.scale, before.scaler.scale / 2);
  }
}

TEST(Gan, TrainsInEveryFormat) {
  for (const char* preset : {"fp32", "bf16", "fp16", "apex-o2", "torch-amp-bf16"}) {
    SCOPED_TRACE(preset);
    auto engine = MakeEngine(PresetNamed(preset));
    const EngineState before = engine->ExportState();
    for (uint64_t step = 0; step < 60; ++step) {
      const StepResult result = engine->Step({MakeGanBatch(step)}, step);
      for (const PhaseResult& phase : result.phases) {
        EXPECT_TRUE(std::isfinite(phase.loss)) << phase.phase << " step " << step;
      }
    }
    EXPECT_GT(engine->applied_steps(), 50);
    const EngineState after = engine->ExportState();
    EXPECT_NE(BytesOf(before, "generator"), BytesOf(after, "generator"));
    EXPECT_NE(BytesOf(before, "discriminator"), BytesOf(after, "discriminator"));
  }
}

// Returns the message with which these phases are rejected.
std::string Refused(const std::vector<PhaseOptions>& phases, const std::string& reason = "BAD_PHASES") {
  const absl::Status status = TryEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE), phases).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason);
  return std::string(status.message());
}

TEST(Phases, ThatDoNotShareOutTheParametersAreRefused) {
  std::vector<PhaseOptions> phases = Phases();
  phases[kGenerator].parameters = "generator.0.*";
  EXPECT_THAT(Refused(phases), HasSubstr("generator.2.weight belongs to no phase"));
  phases[kGenerator].parameters = "*";
  EXPECT_THAT(Refused(phases), HasSubstr("discriminator.0.weight belongs to the phases discriminator and generator"));
  phases = Phases();
  phases.push_back(phases[kGenerator]);
  phases.back().parameters = "encoder.*";
  EXPECT_THAT(Refused(phases), HasSubstr("no parameter matches \"encoder.*\""));
  phases = Phases();
  phases[kGenerator].name = "discriminator";
  EXPECT_THAT(Refused(phases), HasSubstr("two phases have the name"));
  phases = Phases();
  phases[kGenerator].loss = "perceptual_loss";
  EXPECT_THAT(Refused(phases, "NO_LOSS"), HasSubstr("perceptual_loss"));
}

TEST(Phases, AStateWithoutTheCountOfAPhaseIsRefused) {
  auto engine = MakeEngine(Dynamic("fp32", v1::LossScale::EACH_ALONE));
  EngineState state = engine->ExportState();
  state.applied_by_phase.erase("generator");
  EXPECT_EQ(ReasonOf(engine->ImportState(state)), "BAD_STATE");
}

}  // namespace
}  // namespace ampd::amp
