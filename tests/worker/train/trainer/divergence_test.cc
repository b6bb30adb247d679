// Tests of the real ampd-trainer with a fake agent, in trainings with numeric failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>

#include "ATen/ops/arange.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using v1::Event;

class DivergenceTest : public TrainerTest {
 protected:
  static v1::DynamicLossScale& Dynamic(StartAttempt& start) {
    return *start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_dynamic();
  }
};

at::Tensor Uniform(SeededRandom& random, at::IntArrayRef shape, double bound) {
  at::Tensor tensor = at::zeros(shape);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data_ptr<float>()[i] = static_cast<float>((static_cast<double>(random.Next() >> 11) * 0x1p-52 - 1) * bound);
  }
  return tensor;
}

void UseWeights(StartAttempt& start, const std::filesystem::path& root, const executor::TensorMap& weights) {
  std::ofstream file(root / "weights", std::ios::binary);
  const TensorFile content = *TensorFile::Of(weights);
  for (const std::string_view part : content.parts()) {
    file << part;
  }
  (*start.mutable_data_roots())["root"] = root.string();
  start.mutable_spec()->mutable_model()->set_initial_weights("root/weights");
}

TEST_F(DivergenceTest, AScaleAtItsFloor_FallsBackToAWiderPrecisionAndTrains) {
  StartAttempt start = Mlp("fp16", 30);
  Dynamic(start).set_initial(1e30);
  Dynamic(start).set_cap(1e30);
  Dynamic(start).set_floor(1e30);
  Dynamic(start).set_at_floor(v1::DynamicLossScale::FALL_BACK);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_GT(agent->outcome->final_metrics().eval_accuracy(), 0.8);
  const std::vector<Event> raised = EventsOf(*agent, Event::PRECISION_RAISED);
  ASSERT_THAT(raised, SizeIs(1));
  EXPECT_EQ(raised[0].step(), 1) << "nothing was lost: the skipped step left everything as it was";
  EXPECT_EQ(raised[0].attributes().at("precision"), "bf16");
  EXPECT_THAT(raised[0].message(), HasSubstr("continues in bf16: at step 1 the loss scale fell to its floor, 1e+30"));
  EXPECT_EQ(agent->state.precision(), "bf16");
  EXPECT_TRUE(agent->steps[1].skipped);
  EXPECT_FALSE(agent->steps[2].skipped);
}

TEST_F(DivergenceTest, AnFp8LayerBeyondTheCanarysBound_ContinuesInBf16AndIsReported) {
  StartAttempt start = Mlp("fp8", 30);
  start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);
  v1::Fp8Recipe& fp8 = *start.mutable_spec()->mutable_precision()->mutable_fp8();
  fp8.set_canary_every_steps(10);
  fp8.set_canary_bound(1e-6);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_TRUE(agent->outcome->final_metrics().emulated());
  const std::vector<Event> raised = EventsOf(*agent, Event::PRECISION_RAISED);
  ASSERT_THAT(raised, SizeIs(1)) << "it is out of FP8 when the canary looks again";
  EXPECT_EQ(raised[0].attributes().at("module"), "layers.2");
  EXPECT_THAT(raised[0].message(), HasSubstr("the errors of the FP8 products of layers.2 are "));
  fp8.set_canary_bound(0.5);
  start.mutable_key()->set_job_id("j-within");
  EXPECT_THAT(EventsOf(*RunToOutcome(start), Event::PRECISION_RAISED), IsEmpty());
}

TEST_F(DivergenceTest, WeightsThatUnderflowInFp8_AreReportedOnceWithTheirShare) {
  StartAttempt start = Mlp("fp8", 25);
  start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);
  start.mutable_spec()->mutable_precision()->mutable_fp8()->set_canary_every_steps(10);
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1e-12);  // Keeps the weights unchanged.
  // The weights are 1 on the diagonal and 1e-6 elsewhere. The layer's FP8 scale maps 1 to the largest number of the
  // format E4M3. With this scale, 1e-6 becomes less than half of E4M3's smallest number, and is rounded to zero.
  at::Tensor weight = at::full({16, 16}, 1e-6);
  weight.fill_diagonal_(1);
  UseWeights(start, root_,
             {{"layers.0.weight", at::full({16, 12}, 0.1)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", weight},
              {"layers.2.bias", at::zeros({16})},
              {"layers.4.weight", at::arange(48, at::kFloat).reshape({3, 16}).mul(0.01)},
              {"layers.4.bias", at::zeros({3})}});
  const auto agent = RunToOutcome(start);
  EXPECT_THAT(EventsOf(*agent, Event::PRECISION_RAISED), IsEmpty()) << "the products are none the worse";
  const std::vector<Event> underflows = EventsOf(*agent, Event::UNDERFLOW);
  ASSERT_THAT(underflows, SizeIs(1)) << "three looks, one and the same fault";
  EXPECT_EQ(underflows[0].step(), 1);
  EXPECT_EQ(underflows[0].message(),
            "numbers underflow in FP8, most in the weight of layers.2: 93.8% of its numbers became zero");
  EXPECT_EQ(underflows[0].attributes().at("operand"), "weight");
  EXPECT_EQ(underflows[0].attributes().at("modules"), "layers.2 0.938");
  EXPECT_EQ(underflows[0].attributes().at("saturation_share"), "0.000");
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = agent->checkpoints[0];
  EXPECT_THAT(EventsOf(*RunToOutcome(start), Event::UNDERFLOW), IsEmpty()) << "it was told before the checkpoint";
}

TEST_F(DivergenceTest, AScaleAtItsFloor_InTheWidestPrecisionEndsTheAttempt) {
  StartAttempt start = Mlp("fp16", 30);
  Dynamic(start).set_initial(3e38);
  Dynamic(start).set_cap(3e38);
  Dynamic(start).set_floor(3e38);
  Dynamic(start).set_at_floor(v1::DynamicLossScale::FALL_BACK);
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  UseIdx(start, 48, -1);  // Inputs so large that gradients exceed even fp32's range.
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FAILED);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::LOSS_SCALE_COLLAPSED) << agent->outcome->ShortDebugString();
  EXPECT_THAT(EventsOf(*agent, Event::PRECISION_RAISED), SizeIs(2));
  EXPECT_THAT(EventsOf(*agent, Event::LOSS_SCALE_AT_FLOOR), SizeIs(1)) << "the same floor is told of once";
}

TEST_F(DivergenceTest, AModelThatFp16CannotTrain_StopsAtTheFloorOfOneAndGoesOnWider) {
  StartAttempt start = Mlp("fp16", 250);
  // A gradient of the first layer's weights is a product of two factors. One is a pixel; normalised by UseIdx, pixels
  // reach 392. The other is a gradient from the second layer; the large weights below make it about 400. The product
  // exceeds fp16's largest number, 65504, with every loss scale of at least 1.
  UseIdx(start, 48, -1);
  UseWeights(start, root_,
             {{"layers.0.weight", at::full({16, 12}, 1e-3)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", at::arange(48, at::kFloat).reshape({3, 16}).sub(24).mul(100)},
              {"layers.2.bias", at::zeros({3})}});
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1e-12);
  start.mutable_spec()->clear_checkpoint();
  const auto failed = RunToOutcome(start);
  EXPECT_EQ(failed->outcome->reason(), v1::Reason::LOSS_SCALE_COLLAPSED) << failed->outcome->ShortDebugString();
  EXPECT_EQ(failed->outcome->last_step(), 16 + 101) << "down from 2^16, and as long as scale_stuck waits";
  const std::vector<Event> floor = EventsOf(*failed, Event::LOSS_SCALE_AT_FLOOR);
  ASSERT_THAT(floor, SizeIs(1));
  EXPECT_EQ(floor[0].message(), "the loss scale is at its floor, 1");
  EXPECT_EQ(EventsOf(*failed, Event::OVERFLOW).back().attributes().at("parameter"), "layers.0.weight");

  start.mutable_key()->set_job_id("j-raised");
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  const auto raised = RunToOutcome(start);
  EXPECT_EQ(raised->outcome->kind(), Outcome::FINISHED) << raised->outcome->ShortDebugString();
  const std::vector<Event> raises = EventsOf(*raised, Event::PRECISION_RAISED);
  ASSERT_THAT(raises, SizeIs(1));
  EXPECT_EQ(raises[0].attributes().at("fp32_modules"), "layers.0");
  EXPECT_LT(raised->outcome->final_metrics().skipped_steps(), 16) << "the scale settles above its floor";
}

TEST_F(DivergenceTest, GradientsThatUnderflow_AreReportedOnceWithTheScaleThatSuggests) {
  StartAttempt start = Mlp("fp16", 210);
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(0x1p-8);
  const auto agent = RunToOutcome(start);
  const std::vector<Event> underflows = EventsOf(*agent, Event::UNDERFLOW);
  ASSERT_THAT(underflows, SizeIs(1)) << "three samples, one and the same fault";
  EXPECT_EQ(underflows[0].step(), 1);
  const auto& attributes = underflows[0].attributes();
  EXPECT_GT(std::stod(attributes.at("underflow_share")), 0.1);
  EXPECT_THAT(attributes.at("modules"), StartsWith(attributes.at("module") + " " + attributes.at("underflow_share")));
  EXPECT_THAT(attributes.at("exponents"), HasSubstr("2^-24..-15 "));
  const double suggested = std::stod(attributes.at("suggested_scale"));
  EXPECT_GT(suggested, 64);
  EXPECT_THAT(underflows[0].message(), HasSubstr("ampctl job scale to " + attributes.at("suggested_scale")));
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = agent->checkpoints[0];
  EXPECT_THAT(EventsOf(*RunToOutcome(start), Event::UNDERFLOW), IsEmpty()) << "it was told before the checkpoint";
  start.clear_start_from();
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(suggested);
  start.mutable_key()->set_job_id("j-suggested");
  const auto better = RunToOutcome(start);
  EXPECT_THAT(EventsOf(*better, Event::UNDERFLOW), IsEmpty());
  EXPECT_FALSE(better->steps[1].skipped);
}

TEST_F(DivergenceTest, GradientsThatUnderflowBehindCasts_AreReportedLikeThoseOfFp16Leaves) {
  std::map<std::string, Event> told;
  for (const std::string preset : {"fp16", "torch-amp-fp16", "torch-amp-bf16"}) {
    StartAttempt start = Mlp(preset, 110);
    start.mutable_key()->set_job_id("j-" + preset);
    start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(0x1p-8);
    const std::vector<Event> underflows = EventsOf(*RunToOutcome(start), Event::UNDERFLOW);
    ASSERT_THAT(underflows, SizeIs(preset == "torch-amp-bf16" ? 0 : 1)) << preset;
    told[preset] = underflows.empty() ? Event() : underflows[0];
  }
  const auto& leaves = told["fp16"].attributes();
  const auto& casts = told["torch-amp-fp16"].attributes();
  EXPECT_EQ(told["torch-amp-fp16"].step(), 1);
  for (const char* attribute : {"parameter", "module", "modules", "underflow_share", "exponents", "suggested_scale"}) {
    EXPECT_EQ(casts.at(attribute), leaves.at(attribute)) << "the first step's gradients are the same fp16 numbers";
  }
}

// Sets a learning rate at which activations overflow fp16, but not bf16.
StartAttempt TooFastForFp16(StartAttempt start) {
  v1::MlpSpec& mlp = *start.mutable_spec()->mutable_model()->mutable_mlp();
  mlp.clear_hidden();
  mlp.add_hidden(64);
  mlp.add_hidden(64);
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(5);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(2);
  return start;
}

TEST_F(DivergenceTest, ALearningRateThatDivergesInFp16_TrainsAfterTheFallBackToBf16) {
  StartAttempt start = TooFastForFp16(Mlp("fp16", 120));
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_GT(agent->outcome->final_metrics().eval_accuracy(), 0.8);
  const std::vector<Event> back = EventsOf(*agent, Event::ROLLED_BACK);
  const std::vector<Event> raised = EventsOf(*agent, Event::PRECISION_RAISED);
  ASSERT_THAT(back, SizeIs(1));
  ASSERT_THAT(raised, SizeIs(1));
  EXPECT_EQ(back[0].attributes().at("rule"), "loss_not_finite");
  EXPECT_EQ(back[0].attributes().at("to_step"), absl::StrCat(back[0].step()));
  EXPECT_THAT(back[0].message(), HasSubstr("training repeats the data between these steps"));
  EXPECT_EQ(raised[0].attributes().at("precision"), "bf16");
  EXPECT_EQ(agent->state.precision(), "bf16");
  EXPECT_EQ(agent->outcome->last_step(), 120);

  start = TooFastForFp16(Mlp("fp16", 122, 2));
  *start.mutable_start_from() = agent->checkpoints.back();
  const auto resumed = RunToOutcome(start);
  EXPECT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
  EXPECT_EQ(resumed->state.precision(), "bf16") << "what it was raised to is part of the checkpoint";
  EXPECT_THAT(EventsOf(*resumed, Event::CHECKPOINT_LOADED)[0].message(),
              HasSubstr("; the precision was raised before that step, so training continues in bf16"));
}

TEST_F(DivergenceTest, ARaise_IsTakenBackAfterAQuietPeriodAndThreeTimesAtMost) {
  StartAttempt start = Mlp("fp16", 40);
  Dynamic(start).set_initial(1e30);
  Dynamic(start).set_cap(1e30);
  Dynamic(start).set_floor(1e30);
  Dynamic(start).set_at_floor(v1::DynamicLossScale::FALL_BACK);
  start.mutable_spec()->set_lower_again_after_steps(5);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  const auto whole = RunToOutcome(start);
  EXPECT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
  EXPECT_THAT(StepsOf(EventsOf(*whole, Event::PRECISION_RAISED)), ElementsAre(1, 7, 13, 19));
  const std::vector<Event> lowered = EventsOf(*whole, Event::PRECISION_LOWERED);
  EXPECT_THAT(StepsOf(lowered), ElementsAre(6, 12, 18));
  EXPECT_EQ(lowered[0].attributes().at("precision"), "fp16");
  EXPECT_EQ(lowered[2].attributes().at("num_lowerings"), "3");
  EXPECT_EQ(lowered[0].message(),
            "the precision was lowered back to fp16 after 5 steps without a problem; until now, training ran in bf16");
  EXPECT_EQ(whole->state.precision(), "bf16") << "the fourth raise is for good";
  EXPECT_EQ(whole->outcome->final_metrics().skipped_steps(), 4) << "what the lower precision cost";

  for (const size_t step : {3, 6, 7, 20}) {
    start.mutable_key()->set_attempt(static_cast<int>(step));
    *start.mutable_start_from() = whole->checkpoints[step - 1];
    EXPECT_EQ(RunToOutcome(start)->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash())
        << "from step " << step;
  }
}

TEST_F(DivergenceTest, ALowerPrecisionThatGoesWrongAgain_IsLeftForGood) {
  StartAttempt start = TooFastForFp16(Mlp("fp16", 160));
  start.mutable_spec()->set_lower_again_after_steps(20);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_THAT(EventsOf(*agent, Event::PRECISION_LOWERED), SizeIs(1));
  EXPECT_THAT(EventsOf(*agent, Event::PRECISION_RAISED), SizeIs(2));
  EXPECT_THAT(EventsOf(*agent, Event::ROLLED_BACK), SizeIs(2));
  EXPECT_EQ(agent->state.precision(), "bf16");
  EXPECT_GT(agent->outcome->final_metrics().eval_accuracy(), 0.8);
}

TEST_F(DivergenceTest, TheSameLearningRateWithoutAFallBack_EndsTheAttempt) {
  StartAttempt start = TooFastForFp16(Mlp("fp16", 120));
  start.mutable_spec()->set_on_divergence(v1::JobSpec::FAIL);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FAILED);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_LOSS) << agent->outcome->ShortDebugString();
  EXPECT_THAT(EventsOf(*agent, Event::DIVERGENCE), SizeIs(1));
}

TEST_F(DivergenceTest, RollBack_GoesOnBehindTheBatchThatWasAtFault) {
  StartAttempt start = Mlp("fp16", 12);
  UseIdx(start, 8 * 20, /*bright=*/8 * 5 + 3);  // The bright sample is in the sixth batch.
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_off();
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(4);
  StartAttempt failing = start;
  failing.mutable_key()->set_job_id("j-failing");
  const Outcome failed = Run(failing);
  EXPECT_EQ(failed.reason(), v1::Reason::NONFINITE_LOSS) << failed.ShortDebugString();
  EXPECT_EQ(failed.last_step(), 6);

  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_EQ(agent->outcome->last_step(), 12);
  const std::vector<Event> back = EventsOf(*agent, Event::ROLLED_BACK);
  ASSERT_THAT(back, SizeIs(1));
  EXPECT_EQ(back[0].step(), 4);
  EXPECT_EQ(back[0].attributes().at("from_step"), "6");
  EXPECT_THAT(back[0].message(),
              HasSubstr("rolled back from step 6 to step 4; training skips the data between these steps"));
  EXPECT_THAT(EventsOf(*agent, Event::PRECISION_RAISED), IsEmpty());
  EXPECT_TRUE(std::isfinite(agent->steps[6].loss)) << "step 6 was taken again, with another batch";
  EXPECT_THAT(agent->checkpoints, SizeIs(3)) << "4, 8 and 12";
}

// A bad batch makes the run roll back to a checkpoint. In the second of two runs, the next step has already begun when
// the run reads the bad result. Both runs must report the same.
TEST_F(DivergenceTest, AStepBegunBeforeTheLastOneIsRead_ChangesNothingThatIsReported) {
  std::vector<std::unique_ptr<FakeAgent>> runs;
  for (const int ahead : {0, 1}) {
    StartAttempt start = Mlp("fp16", 26);
    UseIdx(start, 8 * 20, /*bright=*/8 * 8 + 3);  // The bright sample is in the ninth batch.
    start.mutable_key()->set_job_id(absl::StrCat("j-ahead-", ahead));
    start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_off();
    start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
    start.mutable_spec()->mutable_checkpoint()->set_every_steps(4);
    start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
    runs.push_back(RunToOutcome(start, ahead));
  }
  EXPECT_EQ(runs[0]->outcome->kind(), Outcome::FINISHED) << runs[0]->outcome->ShortDebugString();
  EXPECT_THAT(EventsOf(*runs[0], Event::ROLLED_BACK), SizeIs(Ge(1u)));
  EXPECT_EQ(runs[1]->steps, runs[0]->steps);
  EXPECT_EQ(runs[1]->outcome->final_metrics().state_hash(), runs[0]->outcome->final_metrics().state_hash());
  ASSERT_EQ(runs[1]->events.size(), runs[0]->events.size());
  for (size_t i = 0; i < runs[0]->events.size(); ++i) {
    EXPECT_EQ(runs[1]->events[i].message(), runs[0]->events[i].message());
  }
}

TEST_F(DivergenceTest, RollBack_WithoutACheckpointGoesBackToTheStartAndGivesUpAfterThreeTimes) {
  StartAttempt start = Mlp("fp32", 50);
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1e30);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
  start.mutable_spec()->clear_checkpoint();
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FAILED);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_LOSS) << agent->outcome->ShortDebugString();
  EXPECT_THAT(agent->outcome->message(), HasSubstr("already rolled back 3 times"));
  const std::vector<Event> back = EventsOf(*agent, Event::ROLLED_BACK);
  ASSERT_THAT(back, SizeIs(3));
  EXPECT_EQ(back[2].step(), 0);
  EXPECT_EQ(back[2].attributes().at("num_rollbacks"), "3");
  EXPECT_THAT(EventsOf(*agent, Event::DIVERGENCE), SizeIs(4));
}

// Chooses weights with which the middle layer gets large inputs and makes small outputs, so that only the gradient of
// that layer's weights overflows.
void OverflowInTheMiddle(StartAttempt& start, const std::filesystem::path& root) {
  v1::MlpSpec& mlp = *start.mutable_spec()->mutable_model()->mutable_mlp();
  mlp.add_hidden(16);
  SeededRandom random(4);
  UseWeights(start, root,
             {{"layers.0.weight", Uniform(random, {16, 12}, 2000)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", Uniform(random, {16, 16}, 5e-5)},
              {"layers.2.bias", at::zeros({16})},
              {"layers.4.weight", Uniform(random, {3, 16}, 0.25)},
              {"layers.4.bias", at::zeros({3})}});
}

TEST_F(DivergenceTest, OneLayerWhoseGradientOverflows_IsNamedAndRaisedAlone) {
  StartAttempt start = Mlp("fp16", 160);
  OverflowInTheMiddle(start, root_);
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(0x1p14);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(3e-8);
  start.mutable_spec()->clear_checkpoint();
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  const std::vector<Event> overflows = EventsOf(*agent, Event::OVERFLOW);
  ASSERT_THAT(overflows, SizeIs(Ge(101u)));
  EXPECT_THAT(overflows[0].message(), StartsWith("the step was skipped: "));
  EXPECT_EQ(overflows[0].attributes().at("parameter"), "layers.2.weight");
  EXPECT_EQ(overflows[0].attributes().at("module"), "layers.2");
  EXPECT_EQ(overflows[0].attributes().at("num_parameters"), "1");
  EXPECT_EQ(overflows[0].attributes().at("loss_is_finite"), "true");
  const std::vector<Event> raised = EventsOf(*agent, Event::PRECISION_RAISED);
  ASSERT_THAT(raised, SizeIs(1));
  EXPECT_EQ(raised[0].attributes().at("precision"), "fp16");
  EXPECT_EQ(raised[0].attributes().at("fp32_modules"), "layers.2");
  EXPECT_THAT(raised[0].message(), HasSubstr("continues with layers.2 in fp32: the last 101 steps were all skipped"));
  EXPECT_EQ(agent->outcome->final_metrics().skipped_steps(), 0) << "back at the start, nothing was skipped again";
  EXPECT_LT(agent->steps[160].loss, 0.9 * agent->steps[1].loss) << "and it learns";
}

// The static loss scale is so large that the gradients of all layers below the head overflow, in any format. So each
// raise is followed by a wider one, until the job has gone back three times.
TEST_F(DivergenceTest, Fp8LayersWhoseGradientsAreNotFinite_GoBackAndAreRaisedToBf16OneAndThenAll) {
  StartAttempt start = Mlp("fp8", 160);
  for (int i = 0; i < 2; ++i) {
    start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);
  }
  SeededRandom random(4);
  UseWeights(start, root_,
             {{"layers.0.weight", Uniform(random, {16, 12}, 0.01)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", Uniform(random, {16, 16}, 0.01)},
              {"layers.2.bias", at::zeros({16})},
              {"layers.4.weight", Uniform(random, {16, 16}, 0.01)},
              {"layers.4.bias", at::full({16}, 0.01)},
              {"layers.6.weight", Uniform(random, {3, 16}, 30)},
              {"layers.6.bias", at::zeros({3})}});
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(0x1p127);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(50);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(EventsOf(*agent, Event::OVERFLOW)[0].attributes().at("module"), "layers.4");
  std::vector<std::string> raised;
  for (const Event& event : EventsOf(*agent, Event::PRECISION_RAISED)) {
    raised.push_back(absl::StrCat(event.attributes().at("precision"), " bf16:", event.attributes().at("bf16_modules"),
                                  " fp32:", event.attributes().at("fp32_modules")));
  }
  EXPECT_THAT(raised, ElementsAre("fp8 bf16:layers.4 fp32:", "bf16 bf16: fp32:", "bf16 bf16: fp32:layers.4"));
  EXPECT_THAT(EventsOf(*agent, Event::ROLLED_BACK), SizeIs(3));
  EXPECT_EQ(agent->outcome->kind(), Outcome::FAILED) << agent->outcome->ShortDebugString();
}

TEST_F(DivergenceTest, ASkippedBatch_IsReplayedAtTheLowerScaleAndAResumedRunDoesTheSame) {
  StartAttempt start = Mlp("fp16", 16);
  Dynamic(start).set_initial(0x1p22);
  start.mutable_spec()->mutable_train()->set_replay_skipped(true);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  const auto whole = RunToOutcome(start);
  ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
  const std::vector<Event> replayed = EventsOf(*whole, Event::BATCH_REPLAYED);
  ASSERT_THAT(replayed, SizeIs(Ge(2u)));
  for (const Event& event : replayed) {
    const FakeAgent::Step& skipped = whole->steps[event.step()];
    const FakeAgent::Step& again = whole->steps[event.step() + 1];
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(again.loss, skipped.loss) << "the same batch, weights and random numbers";
    EXPECT_EQ(again.loss_scale, skipped.loss_scale / 2);
  }
  EXPECT_EQ(replayed.size(), EventsOf(*whole, Event::OVERFLOW).size());

  for (const int64_t at : {1, 2, 5}) {
    StartAttempt second = start;
    second.mutable_key()->set_attempt(static_cast<int>(at) + 1);
    *second.mutable_start_from() = whole->checkpoints[static_cast<size_t>(at) - 1];
    ASSERT_EQ(second.start_from().step(), at);
    const auto resumed = RunToOutcome(second);
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash())
        << "from step " << at;
  }
}

TEST_F(DivergenceTest, ABatchThatNoScaleHeals_IsReplayedEightTimesAndLetGo) {
  StartAttempt start = Mlp("fp16", 10);
  Dynamic(start).set_initial(0x1p100);
  Dynamic(start).set_cap(0x1p100);
  start.mutable_spec()->mutable_train()->set_replay_skipped(true);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::WARN);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(1);
  const auto agent = RunToOutcome(start);
  EXPECT_THAT(EventsOf(*agent, Event::BATCH_REPLAYED), SizeIs(9)) << "eight of the first batch, one of the second";
  EXPECT_EQ(agent->steps[1].loss, agent->steps[9].loss);
  EXPECT_NE(agent->steps[9].loss, agent->steps[10].loss);

  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = agent->checkpoints[3];
  const auto resumed = RunToOutcome(start);
  EXPECT_EQ(resumed->steps[10].loss, agent->steps[10].loss) << "the four replays before count";
}

TEST_F(DivergenceTest, AReplayThatNothingCanTrigger_IsAWarning) {
  StartAttempt start = Mlp("fp32", 2);
  start.mutable_spec()->mutable_train()->set_replay_skipped(true);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED);
  const std::vector<Event> warnings = EventsOf(*agent, Event::WARNING);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0].message(), HasSubstr("train.replay_skipped does nothing"));
  start = Mlp("fp16", 2);
  start.mutable_key()->set_job_id("j-scaled");
  start.mutable_spec()->mutable_train()->set_replay_skipped(true);
  const std::vector<Event> of_fp16 = EventsOf(*RunToOutcome(start), Event::WARNING);
  ASSERT_THAT(of_fp16, SizeIs(1));
  EXPECT_THAT(of_fp16[0].message(), HasSubstr("float16 is emulated on")) << "and nothing of a replay";
}

TEST_F(DivergenceTest, ABatchWhoseLossIsNotFinite_IsNotReplayed) {
  StartAttempt start = Mlp("fp16", 12);
  UseIdx(start, 8 * 20, /*bright=*/8 * 5 + 3);
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
  Dynamic(start).set_initial(1);
  Dynamic(start).set_floor(0x1p-10);  // The scale can fall, so a replay would be possible.
  start.mutable_spec()->mutable_train()->set_replay_skipped(true);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_TRUE(agent->steps[6].skipped);
  EXPECT_THAT(EventsOf(*agent, Event::BATCH_REPLAYED), IsEmpty());
  const std::vector<Event> overflows = EventsOf(*agent, Event::OVERFLOW);
  ASSERT_THAT(overflows, SizeIs(1));
  EXPECT_EQ(overflows[0].attributes().at("loss_is_finite"), "false");
  EXPECT_EQ(agent->outcome->final_metrics().skipped_steps(), 1);
}

// The server fails a job whose last loss is not finite. A skipped step has not trained on its loss.
TEST_F(DivergenceTest, ALastStepThatIsSkippedForItsLoss_LeavesTheLossOfTheStepBefore) {
  StartAttempt start = Mlp("fp16", 6);
  UseIdx(start, 8 * 20, /*bright=*/8 * 5 + 3);
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
  Dynamic(start).set_initial(1);
  Dynamic(start).set_floor(0x1p-10);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_TRUE(agent->steps[6].skipped);
  EXPECT_FALSE(std::isfinite(agent->steps[6].loss));
  EXPECT_EQ(agent->outcome->final_metrics().train_loss(), agent->steps[5].loss);
}

// Makes the model an MLP with two hidden layers, whose loss is finite but whose gradients exceed fp32's range.
// Activations of 2e-38 are multiplied by weights of 1e19 and 1e21.
void UseSteepWeights(StartAttempt& start, const std::filesystem::path& root) {
  start.mutable_spec()->mutable_model()->mutable_mlp()->add_hidden(16);
  at::Tensor last = at::zeros({3, 16});
  last.select(0, 0).fill_(-1e21);
  last.select(0, 1).fill_(5e20);
  last.select(0, 2).fill_(1e21);
  UseWeights(start, root,
             {{"layers.0.weight", at::zeros({16, 12})},
              {"layers.0.bias", at::full({16}, 2e-38)},
              {"layers.2.weight", at::full({16, 16}, 1e19)},
              {"layers.2.bias", at::zeros({16})},
              {"layers.4.weight", last},
              {"layers.4.bias", at::zeros({3})}});
}

TEST_F(DivergenceTest, GradientsBeyondFp32_AreNotBlamedOnALossScaleThatTheJobHasNot) {
  for (const int64_t steps : {5, 50}) {
    StartAttempt start = Mlp("fp32", steps);
    UseSteepWeights(start, root_);
    const Outcome outcome = Run(start);
    EXPECT_EQ(outcome.reason(), v1::Reason::NONFINITE_GRADIENTS) << outcome.ShortDebugString();
    EXPECT_EQ(outcome.last_step(), std::min<int64_t>(steps, 20));
    EXPECT_THAT(outcome.message(), HasSubstr("skipped"));
    EXPECT_THAT(outcome.message(), HasSubstr("the backward pass overflows or divides by zero in module layers.0:"));
    EXPECT_THAT(outcome.message(), Not(HasSubstr("scale")));
    EXPECT_THAT(outcome.message(), Not(HasSubstr("learning rate")));
  }
}

TEST_F(DivergenceTest, ALossThatIsNotFiniteFromTheStart_IsNotBlamedOnTheLearningRate) {
  StartAttempt start = Mlp("fp32", 5);
  UseWeights(start, root_,
             {{"layers.0.weight", at::full({16, 12}, 1e30)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", at::full({3, 16}, 1e30)},
              {"layers.2.bias", at::zeros({3})}});
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::NONFINITE_LOSS) << outcome.ShortDebugString();
  EXPECT_THAT(outcome.message(), HasSubstr("weights and data are finite, and no step has changed the weights yet"));
  EXPECT_THAT(outcome.message(), Not(HasSubstr("learning rate")));
}

TEST_F(DivergenceTest, InitialWeightsThatAreNotFinite_AreADataErrorThatNamesFileAndTensor) {
  const float nan = std::nanf("");
  const struct {
    const char* precision;
    double number;
    const char* said;
  } cases[] = {{"fp32", nan, "parameter layers.2.weight has 48 elements that are not finite"},
               {"bf16", -INFINITY, "parameter layers.2.weight has 48 elements that are not finite"},
               {"fp16", 1e5,
                "parameter layers.2.weight has 48 elements that are not finite in float16; the largest number of "
                "float16 is 65504"}};
  for (const auto& [precision, number, said] : cases) {
    StartAttempt start = Mlp(precision, 5);
    UseWeights(start, root_,
               {{"layers.0.weight", at::full({16, 12}, 0.1)},
                {"layers.0.bias", at::zeros({16})},
                {"layers.2.weight", at::full({3, 16}, number)},
                {"layers.2.bias", at::zeros({3})}});
    const auto agent = RunToOutcome(start);
    EXPECT_EQ(agent->outcome->reason(), v1::Reason::DATA_ERROR) << precision << agent->outcome->ShortDebugString();
    EXPECT_THAT(agent->outcome->message(), HasSubstr("model.initial_weights \"root/weights\": the"));
    EXPECT_THAT(agent->outcome->message(), HasSubstr(said));
    EXPECT_EQ(agent->outcome->last_step(), 0);
  }
  StartAttempt anew = Mlp("fp32", 5);
  UseWeights(anew, root_,
             {{"layers.0.weight", at::full({16, 12}, 0.1)},
              {"layers.0.bias", at::zeros({16})},
              {"layers.2.weight", at::full({3, 16}, nan)},
              {"layers.2.bias", at::zeros({3})}});
  anew.mutable_spec()->mutable_model()->add_initialize_anew("layers.2.*");
  EXPECT_EQ(Run(anew).kind(), Outcome::FINISHED) << "what is not taken may be anything";
}

// An attempt with a network whose activations are about 1e25. Their variance is beyond fp32's range, so the running
// variance of a norm overflows. The activations after the norm are finite.
StartAttempt WithOverflowingStatistics(StartAttempt start) {
  v1::JobSpec& spec = *start.mutable_spec();
  v1::ResnetSpec& resnet = *spec.mutable_model()->mutable_resnet();
  resnet.set_depth(18);
  resnet.set_stem(v1::ResnetSpec::CIFAR);
  resnet.set_image_size(8);
  resnet.set_num_classes(3);
  spec.mutable_data()->clear_eval();
  spec.mutable_data()->set_batch_size(4);
  v1::SyntheticSource& data = *spec.mutable_data()->mutable_train()->mutable_synthetic();
  data.mutable_shape()->Clear();
  for (const int extent : {3, 8, 8}) {
    data.add_shape(extent);
  }
  data.set_num_samples(8);
  data.set_noise(1e25);
  spec.mutable_checkpoint()->set_every_steps(1);
  return start;
}

TEST_F(DivergenceTest, RunningStatisticsThatAreNotFinite_EndTheAttemptBeforeACheckpointHasThem) {
  StartAttempt start = WithOverflowingStatistics(Mlp("fp32", 2));
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_STATE) << agent->outcome->ShortDebugString();
  EXPECT_THAT(agent->outcome->message(), HasSubstr("at step 1 the running statistic bn1.running_var has 64 elements"));
  EXPECT_THAT(agent->outcome->message(), Not(HasSubstr("learning rate")));
  EXPECT_THAT(agent->checkpoints, IsEmpty());
}

TEST_F(DivergenceTest, RunningStatisticsThatAreNotFiniteAfterEachRollBack_EndTheAttemptAtTheFourthTime) {
  for (const auto on_divergence : {v1::JobSpec::ROLL_BACK, v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION}) {
    StartAttempt start = WithOverflowingStatistics(Mlp("fp32", 2));
    start.mutable_key()->set_job_id(absl::StrCat("j-back-", static_cast<int>(on_divergence)));
    start.mutable_spec()->set_on_divergence(on_divergence);
    const auto agent = RunToOutcome(start);
    EXPECT_EQ(agent->outcome->kind(), Outcome::FAILED);
    EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_STATE) << agent->outcome->ShortDebugString();
    EXPECT_THAT(agent->outcome->message(), HasSubstr("running statistic bn1.running_var"));
    EXPECT_THAT(agent->outcome->message(), HasSubstr("already rolled back 3 times"));
    EXPECT_THAT(EventsOf(*agent, Event::ROLLED_BACK), SizeIs(3));
    EXPECT_THAT(StepsOf(EventsOf(*agent, Event::DIVERGENCE)), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(agent->checkpoints, IsEmpty());
  }
}

// Every evaluation loss is not finite, because the evaluation data are too large for fp16. A bright sample in the sixth
// batch makes the run roll back from step 6 to step 4, so the evaluation of step 5 is made twice.
TEST_F(DivergenceTest, AnEvaluationLossThatIsNotFiniteAgainAfterARollBack_IsReportedAgain) {
  StartAttempt start = Mlp("fp16", 6);
  UseIdx(start, 8 * 20, /*bright=*/8 * 5 + 3);
  v1::DataSpec& data = *start.mutable_spec()->mutable_data();
  Synthesise(*data.mutable_eval()->mutable_synthetic(), {12}, 20);
  data.mutable_eval()->mutable_synthetic()->set_noise(1e6);
  start.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_off();
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-3);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(4);
  start.mutable_spec()->mutable_eval()->set_every_steps(5);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
  const auto agent = RunToOutcome(start);
  EXPECT_THAT(StepsOf(EventsOf(*agent, Event::ROLLED_BACK)), ElementsAre(4));
  std::vector<int64_t> steps;
  for (const Event& warning : EventsOf(*agent, Event::WARNING)) {
    if (warning.attributes().count("rule") > 0 && warning.attributes().at("rule") == "eval_loss_not_finite") {
      steps.push_back(warning.step());
    }
  }
  EXPECT_THAT(steps, ElementsAre(5, 5, 6)) << "the last evaluation is always reported";
}

TEST_F(DivergenceTest, RunningStatisticsThatAreOnlyToBeReported_AreAnEventAndAWarningOfEveryAttempt) {
  StartAttempt start = WithOverflowingStatistics(Mlp("fp32", 2));
  start.mutable_spec()->set_on_divergence(v1::JobSpec::WARN);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  EXPECT_THAT(StepsOf(EventsOf(*agent, Event::DIVERGENCE)), ElementsAre(1));
  ASSERT_FALSE(agent->checkpoints.empty());
  StartAttempt resumed = Resumed(start, agent->checkpoints.front());
  const std::vector<Event> warnings = EventsOf(*RunToOutcome(resumed), Event::WARNING);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(
      warnings[0].message(),
      HasSubstr("the checkpoint of step 1 has numbers that are not finite: the running statistic bn1.running_var"));
  resumed.mutable_spec()->set_on_divergence(v1::JobSpec::FAIL);
  const Outcome refused = Run(resumed);
  EXPECT_EQ(refused.reason(), v1::Reason::CHECKPOINT_ERROR) << refused.ShortDebugString();
  EXPECT_THAT(refused.message(), HasSubstr("running statistic bn1.running_var"));
}

TEST_F(DivergenceTest, AnEvaluationLossThatIsNotFinite_IsReportedOnceAndEndsTheAttemptIfItIsTheLast) {
  StartAttempt start = Mlp("fp16", 20);
  start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic()->set_noise(1e6);  // Too large for fp16.
  start.mutable_spec()->mutable_eval()->set_every_steps(5);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_LOSS) << agent->outcome->ShortDebugString();
  EXPECT_EQ(agent->outcome->last_step(), 20);
  EXPECT_THAT(agent->outcome->message(), HasSubstr("the evaluation loss of step 20 is not finite: weights, running"));
  EXPECT_THAT(agent->outcome->message(), Not(HasSubstr("learning rate")));
  EXPECT_THAT(StepsOf(EventsOf(*agent, Event::WARNING)), ElementsAre(0, 5, 20)) << "the first: fp16 is emulated";
  ASSERT_FALSE(agent->checkpoints.empty());
  EXPECT_EQ(agent->checkpoints.back().step(), 20) << "what was trained is kept";
  start.mutable_spec()->set_on_divergence(v1::JobSpec::WARN);
  start.mutable_key()->set_job_id("j-warn");
  EXPECT_EQ(Run(start).kind(), Outcome::FINISHED);
}

TEST_F(DivergenceTest, ABatchNormWithOneValueAChannel_IsASpecErrorThatNamesItsModule) {
  StartAttempt start = WithOverflowingStatistics(Mlp("fp32", 2));
  start.mutable_spec()->mutable_data()->set_batch_size(1);
  start.mutable_spec()->mutable_data()->mutable_train()->mutable_synthetic()->set_noise(1);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR) << outcome.ShortDebugString();
  EXPECT_THAT(outcome.message(), HasSubstr("aten.batch_norm.default of layer4.0.bn1 has 1 value a channel"));
}

}  // namespace
}  // namespace ampd::train
