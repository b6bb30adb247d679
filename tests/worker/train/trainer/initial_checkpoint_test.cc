// Tests of the real ampd-trainer with a fake agent, in which attempts start with the weights of another job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InitialCheckpointTest : public TrainerTest {
 protected:
  // Runs twenty steps of the job j-abc and returns the checkpoint at step 14.
  v1::Checkpoint Source() {
    const auto agent = RunToOutcome(Mlp("bf16", 20));
    const auto found = std::find_if(agent->checkpoints.begin(), agent->checkpoints.end(),
                                    [](const v1::Checkpoint& checkpoint) { return checkpoint.step() == 14; });
    EXPECT_NE(found, agent->checkpoints.end());
    return *found;
  }

  // An attempt of the job j-next that starts with the weights of the checkpoint `source`.
  StartAttempt Beginning(const v1::Checkpoint& source) {
    StartAttempt start = Mlp("bf16", 20);
    start.mutable_key()->set_job_id("j-next");
    start.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id("j-abc");
    start.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_step(source.step());
    *start.mutable_start_from() = source;
    start.mutable_start_from()->set_step(0);
    start.set_weights_only(true);
    return start;
  }

  static std::vector<float> LossesOf(const FakeAgent& agent) {
    std::vector<float> losses;
    for (const auto& [step, point] : agent.steps) {
      losses.push_back(point.loss);
    }
    return losses;
  }
};

TEST_F(InitialCheckpointTest, ItsWeightsAndNothingElse_AreWhatTheJobBeginsWith) {
  const v1::Checkpoint source = Source();
  const auto begun = RunToOutcome(Beginning(source));
  EXPECT_EQ(begun->outcome->kind(), Outcome::FINISHED) << begun->outcome->ShortDebugString();
  EXPECT_EQ(begun->outcome->last_step(), 20);
  const std::vector<v1::Event> loaded = EventsOf(*begun, v1::Event::WEIGHTS_LOADED);
  ASSERT_THAT(loaded, SizeIs(1));
  EXPECT_THAT(loaded[0].message(),
              HasSubstr("begins with 4 tensors of model.initial_checkpoint, job j-abc at step 14, "));
  StartAttempt by_file = Mlp("bf16", 20);
  by_file.mutable_key()->set_job_id("j-file");
  (*by_file.mutable_data_roots())["root"] = (root_ / "checkpoints").string();
  by_file.mutable_spec()->mutable_model()->set_initial_weights("root/" + source.path() + "/model.safetensors");
  // The trainer accepts a weights file only if other users may read it. Checkpoints are private, so make this
  // checkpoint and the folders above it readable for others.
  std::filesystem::path opened = root_ / "checkpoints";
  for (const std::filesystem::path& part : std::filesystem::path(source.path()) / "model.safetensors") {
    opened /= part;
    std::filesystem::permissions(
        opened, is_directory(opened) ? std::filesystem::perms::others_exec : std::filesystem::perms::others_read,
        std::filesystem::perm_options::add);
  }
  const auto expected = RunToOutcome(by_file);
  EXPECT_THAT(LossesOf(*begun), SizeIs(20));
  EXPECT_EQ(LossesOf(*begun), LossesOf(*expected));
  EXPECT_EQ(begun->outcome->final_metrics().state_hash(), expected->outcome->final_metrics().state_hash());
}

TEST_F(InitialCheckpointTest, AnAttemptThatGoesOnFromItsOwnCheckpoint_TakesAllOfIt) {
  const v1::Checkpoint source = Source();
  const auto whole = RunToOutcome(Beginning(source));
  StartAttempt second = Beginning(source);
  second.mutable_key()->set_attempt(2);
  second.mutable_key()->set_token("token2");
  *second.mutable_start_from() = whole->checkpoints.front();
  second.set_weights_only(false);
  ASSERT_EQ(second.start_from().step(), 7);
  const auto resumed = RunToOutcome(second);
  EXPECT_THAT(EventsOf(*resumed, v1::Event::WEIGHTS_LOADED), IsEmpty());
  EXPECT_THAT(resumed->steps, SizeIs(13));
  EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
}

TEST_F(InitialCheckpointTest, OfAnotherShape_IsADataErrorThatListsTheNames) {
  StartAttempt start = Beginning(Source());
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_num_classes(5);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("model.initial_checkpoint, job j-abc at step 14: the tensors are not the "
                                           "model's: 2 of another shape (layers.2.bias: [3] instead of [5], "));
  start.mutable_spec()->mutable_model()->add_initialize_anew("layers.2.*");
  EXPECT_EQ(Run(start).kind(), Outcome::FINISHED);
}

TEST_F(InitialCheckpointTest, ARunThatGoesBackToItsStart_BeginsWithItAgain) {
  StartAttempt start = Beginning(Source());
  start.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1e30);
  start.mutable_spec()->mutable_checkpoint()->set_every_steps(0);
  start.mutable_spec()->set_on_divergence(v1::JobSpec::ROLL_BACK);
  const auto agent = RunToOutcome(start);
  EXPECT_EQ(agent->outcome->reason(), v1::Reason::NONFINITE_LOSS);
  const std::vector<v1::Event> rolled_back = EventsOf(*agent, v1::Event::ROLLED_BACK);
  ASSERT_THAT(rolled_back, SizeIs(3));
  EXPECT_EQ(rolled_back[0].attributes().at("to_step"), "0");
  EXPECT_THAT(EventsOf(*agent, v1::Event::WEIGHTS_LOADED), SizeIs(4));
}

TEST_F(InitialCheckpointTest, ThatIsNotGivenOrNotThere_IsACheckpointError) {
  StartAttempt start = Beginning(Source());
  start.mutable_start_from()->set_path("j-abc/1/step-99");
  EXPECT_EQ(Run(start).reason(), v1::Reason::CHECKPOINT_ERROR);
  start.clear_start_from();
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::CHECKPOINT_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("job j-abc at step 14 is out of reach"));
}

}  // namespace
}  // namespace ampd::train
