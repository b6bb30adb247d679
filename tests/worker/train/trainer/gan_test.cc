// Tests of the real ampd-trainer with a fake agent, in which two networks train against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"
#include "worker/executor/executor.h"
#include "worker/train/checkpoint/checkpoint_store.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using v1::Event;
using v1::LossScale;

class GanTest : public TrainerTest {
 protected:
  // An attempt to train a DCGAN with few channels on 40 images, in batches of 8.
  StartAttempt Gan(const std::string& precision, int64_t steps, int attempt = 1) {
    StartAttempt start = Mlp(precision, steps, attempt);
    v1::JobSpec& spec = *start.mutable_spec();
    v1::DcganSpec& dcgan = *spec.mutable_model()->mutable_dcgan();
    dcgan.set_latent_size(6);
    dcgan.set_generator_features(4);
    dcgan.set_discriminator_features(4);
    Synthesise(*spec.mutable_data()->mutable_train()->mutable_synthetic(), {1, 28, 28}, 40);
    spec.mutable_data()->clear_eval();
    spec.mutable_optimizer()->mutable_adam()->set_learning_rate(2e-3);
    spec.mutable_optimizer()->mutable_adam()->set_beta1(0.5);
    return start;
  }

  // Sets a loss scale that starts so high that every step overflows. The scale falls until a step does not overflow.
  // Later it rises again.
  static void SearchScale(StartAttempt& start, LossScale::OptimizerSkip rule) {
    LossScale& scaling = *start.mutable_spec()->mutable_precision()->mutable_loss_scale();
    scaling.set_optimizer_skip(rule);
    scaling.mutable_dynamic()->set_initial(0x1p36);
    scaling.mutable_dynamic()->set_cap(0x1p36);
    scaling.mutable_dynamic()->set_growth_interval(2);
  }

  LoadedCheckpoint Loaded(const v1::Checkpoint& checkpoint) {
    return Store().Load(checkpoint.path(), checkpoint.manifest_sha256()).value();
  }

  static std::map<std::string, int64_t> CountsOf(const LoadedCheckpoint& checkpoint) {
    std::map<std::string, int64_t> counts;
    const executor::TensorMap model = ReadTensors(checkpoint.files.at("model.safetensors")).value();
    for (const auto& [name, tensor] : model) {
      if (absl::EndsWith(name, "num_batches_tracked")) {
        counts[name] = tensor.item<int64_t>();
      }
    }
    return counts;
  }

  // Saves a copy of the checkpoint, for another job, without the batch counts of the norms (num_batches_tracked).
  v1::Checkpoint WithoutCounts(v1::Checkpoint checkpoint) {
    const LoadedCheckpoint loaded = Loaded(checkpoint);
    executor::TensorMap model = ReadTensors(loaded.files.at("model.safetensors")).value();
    for (const auto& [name, count] : CountsOf(loaded)) {
      model.erase(name);
    }
    const TensorFile file = TensorFile::Of(model).value();
    CheckpointContent content{.job_id = "j-old", .attempt = 1, .token = "token", .step = loaded.step};
    content.state = loaded.state;
    content.environment = loaded.environment;
    for (const auto& [name, bytes] : loaded.files) {
      content.files.push_back(
          {name, name == "model.safetensors" ? file.parts() : std::vector<std::string_view>{bytes}});
    }
    const SavedCheckpoint saved = Store().Save(content).value();
    checkpoint.set_path(saved.path);
    checkpoint.set_manifest_sha256(saved.manifest_sha256);
    return checkpoint;
  }

 private:
  CheckpointStore Store() { return {(root_ / "checkpoints").string(), io_}; }

  CheckpointIo io_;
};

TEST_F(GanTest, BothNetworksTrainInEveryPrecision) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Gan(precision, 30);
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision));
    const auto agent = RunToOutcome(start);
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    ASSERT_EQ(agent->steps.size(), 30u);
    for (const auto& [number, step] : agent->steps) {
      ASSERT_TRUE(step.generator_loss.has_value());
      EXPECT_TRUE(std::isfinite(step.loss) && std::isfinite(*step.generator_loss)) << number;
      EXPECT_EQ(step.skipped, step.generator_skipped || step.discriminator_skipped) << number;
    }
    EXPECT_LT(agent->steps[30].loss, agent->steps[1].loss) << "the discriminator tells the images apart";
    EXPECT_GT(agent->steps[30].generator_grad_norm, 0);
    const v1::FinalMetrics& metrics = agent->outcome->final_metrics();
    EXPECT_FLOAT_EQ(static_cast<float>(metrics.train_loss()), agent->steps[30].loss);
    ASSERT_EQ(metrics.phases_size(), 2);
    EXPECT_EQ(metrics.phases(0).name(), "discriminator");
    EXPECT_FLOAT_EQ(static_cast<float>(metrics.phases(0).loss()), agent->steps[30].loss);
    EXPECT_EQ(metrics.phases(1).name(), "generator");
    EXPECT_FLOAT_EQ(static_cast<float>(metrics.phases(1).loss()), *agent->steps[30].generator_loss);
    EXPECT_FALSE(metrics.has_eval_loss());
    EXPECT_THAT(EventsOf(*agent, Event::LOSS_SPIKE), IsEmpty());
  }
}

TEST_F(GanTest, ASkippedStepIsThatOfOneNetworkOrOfBothAsTheRuleSays) {
  for (const auto rule : {LossScale::EACH_ALONE, LossScale::ALL_TOGETHER}) {
    SCOPED_TRACE(LossScale::OptimizerSkip_Name(rule));
    StartAttempt start = Gan("fp16", 60);
    start.mutable_key()->set_job_id(rule == LossScale::EACH_ALONE ? "j-alone" : "j-together");
    SearchScale(start, rule);
    // With a high learning rate, the discriminator is soon certain of its answers. Then the discriminator's own
    // gradients are small, but the gradients that it passes to the generator are large. So in some steps only one of
    // the networks overflows.
    v1::ParameterGroup& critic = *start.mutable_spec()->mutable_optimizer()->add_groups();
    critic.set_match("discriminator.*");
    critic.set_learning_rate(2e-2);
    const auto agent = RunToOutcome(start);
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    int num_alone = 0;
    int num_skipped = 0;
    for (const auto& [number, step] : agent->steps) {
      EXPECT_EQ(step.skipped, step.generator_skipped || step.discriminator_skipped) << number;
      num_skipped += step.skipped ? 1 : 0;
      num_alone += step.generator_skipped != step.discriminator_skipped ? 1 : 0;
      if (step.skipped && rule == LossScale::EACH_ALONE) {
        EXPECT_EQ(std::isfinite(step.generator_grad_norm), !step.generator_skipped) << number;
        EXPECT_EQ(std::isfinite(step.grad_norm), !step.discriminator_skipped) << number;
      }
    }
    EXPECT_GT(num_skipped, 10);
    EXPECT_LT(num_skipped, 60);
    EXPECT_EQ(agent->outcome->final_metrics().skipped_steps(), num_skipped);
    const std::vector<Event> overflows = EventsOf(*agent, Event::OVERFLOW);
    EXPECT_EQ(overflows.size(), static_cast<size_t>(num_skipped));
    const auto is_of_one = [](const Event& event) { return !event.message().starts_with("the step was skipped"); };
    EXPECT_EQ(std::count_if(overflows.begin(), overflows.end(), is_of_one), num_alone);
    EXPECT_EQ(num_alone > 0, rule == LossScale::EACH_ALONE) << num_alone;
  }
}

// The jobs use micro-batches, gradient clipping, averaged weights and a separate learning rate for the discriminator.
// Steps are skipped both before and after the kill.
TEST_F(GanTest, KilledAndResumed_EveryNumberIsThatOfTheRunNeverInterrupted) {
  constexpr int64_t kSteps = 40;
  const std::pair<const char*, LossScale::OptimizerSkip> cases[] = {{"fp32", LossScale::EACH_ALONE},
                                                                    {"bf16", LossScale::EACH_ALONE},
                                                                    {"fp16", LossScale::EACH_ALONE},
                                                                    {"fp16", LossScale::ALL_TOGETHER}};
  int64_t kill_at = 9;
  for (const auto& [precision, rule] : cases) {
    const std::string job = absl::StrCat("j-", precision, rule);
    SCOPED_TRACE(absl::StrCat(job, " killed at ", kill_at));
    StartAttempt start = Gan(precision, kSteps);
    if (precision == std::string("fp16")) {
      SearchScale(start, rule);
    }
    v1::JobSpec& spec = *start.mutable_spec();
    spec.mutable_train()->set_gradient_accumulation(2);
    spec.mutable_train()->set_clip_grad_norm(1);
    spec.mutable_optimizer()->set_ema_decay(0.75);
    v1::ParameterGroup& critic = *spec.mutable_optimizer()->add_groups();
    critic.set_match("discriminator.*");
    critic.set_learning_rate(1e-3);
    start.mutable_key()->set_job_id(job + "-whole");
    const auto whole = RunToOutcome(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    start.mutable_key()->set_job_id(job);
    FakeAgent killed = Spawn();
    killed.Connect();
    killed.Start(start);
    killed.ReadUntil([&] { return killed.steps.count(kill_at) > 0 && !killed.checkpoints.empty(); });
    killed.Kill(SIGKILL);
    EXPECT_EQ(killed.WaitForExit(), -SIGKILL);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = killed.checkpoints.back();
    const auto resumed = RunToOutcome(start);
    ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
    EXPECT_EQ(resumed->steps.size(), static_cast<size_t>(kSteps - start.start_from().step()));
    for (const auto& [step, numbers] : resumed->steps) {
      const FakeAgent::Step& expected = whole->steps[step];
      if (std::isfinite(expected.grad_norm) && std::isfinite(expected.generator_grad_norm)) {
        EXPECT_EQ(numbers, expected) << "step " << step;
      }
    }
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
    EXPECT_EQ(resumed->outcome->final_metrics().skipped_steps(), whole->outcome->final_metrics().skipped_steps());
    kill_at += 7;
  }
}

// In each of two micro-batches of a step, the discriminator runs three times and the generator once.
TEST_F(GanTest, NormsCountTheBatchesThatTheyHaveSeen) {
  StartAttempt start = Gan("fp32", 14);
  start.mutable_spec()->mutable_train()->set_gradient_accumulation(2);
  const auto agent = RunToOutcome(start);
  ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
  for (const v1::Checkpoint& checkpoint : agent->checkpoints) {
    const std::map<std::string, int64_t> counts = CountsOf(Loaded(checkpoint));
    EXPECT_THAT(counts, UnorderedElementsAre(Pair("discriminator.main.3.num_batches_tracked", 6 * checkpoint.step()),
                                             Pair("generator.main.1.num_batches_tracked", 2 * checkpoint.step()),
                                             Pair("generator.main.4.num_batches_tracked", 2 * checkpoint.step())));
  }
}

TEST_F(GanTest, ACheckpointOfBeforeBatchesWereCountedGoesOnFromZero) {
  const StartAttempt start = Gan("fp32", 14);
  const auto whole = RunToOutcome(start);
  ASSERT_EQ(whole->checkpoints.front().step(), 7);
  const auto resumed = RunToOutcome(Resumed(start, WithoutCounts(whole->checkpoints.front())));
  ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
  ASSERT_EQ(resumed->steps.size(), 7u);
  for (const auto& [step, numbers] : resumed->steps) {
    EXPECT_EQ(numbers, whole->steps[step]) << "step " << step;
  }
  EXPECT_EQ(CountsOf(Loaded(resumed->checkpoints.back()))["generator.main.1.num_batches_tracked"], 7);
}

// An attempt that starts from the checkpoint of the last step trains no step. It must report the same metrics as the
// attempt that saved the checkpoint.
TEST_F(GanTest, ACheckpointOfTheLastStepHasBothLosses) {
  StartAttempt start = Gan("fp32", 14);
  const auto whole = RunToOutcome(start);
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = whole->checkpoints.back();
  const auto again = RunToOutcome(start);
  EXPECT_EQ(again->outcome->final_metrics().phases(1).loss(), whole->outcome->final_metrics().phases(1).loss());
  EXPECT_EQ(again->outcome->final_metrics().train_loss(), whole->outcome->final_metrics().train_loss());
}

TEST_F(GanTest, SegmentsChangeNoNumber) {
  StartAttempt start = Gan("fp32", 12);
  const auto plain = RunToOutcome(start);
  start.mutable_key()->set_job_id("j-segments");
  start.mutable_spec()->mutable_train()->add_checkpoint_segments("*.main.*");
  const auto segmented = RunToOutcome(start);
  ASSERT_EQ(segmented->outcome->kind(), Outcome::FINISHED) << segmented->outcome->ShortDebugString();
  EXPECT_EQ(segmented->steps, plain->steps);
  start.mutable_key()->set_job_id("j-budget");
  start.mutable_spec()->mutable_train()->clear_checkpoint_segments();
  start.mutable_spec()->mutable_train()->set_memory_budget_bytes(1);
  const auto least = RunToOutcome(start);
  ASSERT_EQ(least->outcome->kind(), Outcome::FINISHED) << least->outcome->ShortDebugString();
  EXPECT_EQ(least->steps, plain->steps);
}

TEST_F(GanTest, OtherSeedsAndOtherEpochsDrawOtherNoise) {
  StartAttempt start = Gan("fp32", 10);
  // With these settings the batches repeat and no weight changes, so only the noise is random.
  start.mutable_spec()->mutable_data()->set_keep_order(true);
  start.mutable_spec()->mutable_optimizer()->mutable_adam()->set_learning_rate(1e-30);
  const auto agent = RunToOutcome(start);
  ASSERT_EQ(agent->steps.size(), 10u);
  EXPECT_NE(agent->steps[1].generator_loss, agent->steps[6].generator_loss) << "the same images an epoch later";
  EXPECT_NE(agent->steps[1].generator_loss, agent->steps[2].generator_loss);
}

TEST_F(GanTest, EvaluationDataIsRefused) {
  StartAttempt start = Gan("fp32", 10);
  Synthesise(*start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic(), {1, 28, 28}, 20);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR) << outcome.ShortDebugString();
  EXPECT_THAT(outcome.message(), HasSubstr("data.eval"));
}

}  // namespace
}  // namespace ampd::train
