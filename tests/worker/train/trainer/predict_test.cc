// Tests of the real ampd-trainer with a fake agent, in which an attempt makes predictions with a trained model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PredictTest : public TrainerTest {
 protected:
  // Trains the job j-abc on IDX images for so long that the model memorizes them. Returns the last checkpoint.
  v1::Checkpoint Trained(const std::string& precision) {
    StartAttempt start = Mlp(precision, 60);
    UseIdx(start, 30, -1);
    const auto agent = RunToOutcome(start);
    EXPECT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    return agent->checkpoints.back();
  }

  // Runs an attempt to its end, and acknowledges all telemetry immediately, as if the server had stored it. An attempt
  // that predicts finishes only after these acknowledgements.
  std::unique_ptr<FakeAgent> RunStoring(const StartAttempt& start) {
    auto agent = std::make_unique<FakeAgent>(Folder(), TrainerDevice(), StepsAhead());
    agent->Connect();
    agent->Start(start);
    while (!agent->outcome.has_value() && agent->Read()) {
      if (!agent->sequences.empty()) {
        agent->Acknowledge(agent->sequences.rbegin()->first);
      }
    }
    Finish(*agent);
    return agent;
  }

  // An attempt that makes predictions for the images with the weights of the checkpoint `source`.
  StartAttempt Predicting(const std::string& precision, const v1::Checkpoint& source) {
    StartAttempt start = Mlp(precision, 60);
    UseIdx(start, 30, -1);
    start.mutable_key()->set_job_id("j-predict");
    v1::JobSpec& spec = *start.mutable_spec();
    v1::IdxSource& idx = *spec.mutable_data()->mutable_predict()->mutable_idx();
    idx = spec.data().train().idx();
    idx.set_labels("");
    spec.mutable_data()->clear_train();
    spec.mutable_data()->set_keep_order(false);
    spec.clear_optimizer();
    spec.clear_train();
    spec.clear_checkpoint();
    spec.mutable_train()->set_num_threads(1);
    spec.mutable_predict()->set_format(v1::PredictSpec::JSON_LINES);
    spec.mutable_model()->mutable_initial_checkpoint()->set_job_id("j-abc");
    *start.mutable_start_from() = source;
    start.mutable_start_from()->set_step(0);
    start.set_weights_only(true);
    return start;
  }
};

TEST_F(PredictTest, EverySampleIsPredictedOnceInOrder) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const auto agent = RunStoring(Predicting(precision, Trained(precision)));
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    EXPECT_EQ(agent->outcome->last_step(), 4) << "30 samples in batches of 8";
    EXPECT_EQ(agent->outcome->message(), "predicted 30 samples and wrote 1 file");
    EXPECT_EQ(agent->state.total_steps(), 4);
    EXPECT_THAT(agent->checkpoints, IsEmpty());
    EXPECT_THAT(EventsOf(*agent, v1::Event::WEIGHTS_LOADED), SizeIs(1));
    ASSERT_THAT(agent->samples, SizeIs(1));
    EXPECT_EQ(agent->samples[0].file_name(), "predictions-0000000000.jsonl");
    EXPECT_EQ(agent->samples[0].step(), 4);
    int64_t index = 0;
    for (const auto line : absl::StrSplit(agent->samples[0].content(), '\n', absl::SkipEmpty())) {
      const nlohmann::json one = nlohmann::json::parse(line);
      EXPECT_EQ(one["index"], index);
      EXPECT_EQ(one["class"], index % 3) << precision << ": the model was trained on these images";
      EXPECT_EQ(one["logits"].size(), 3u);
      ++index;
    }
    EXPECT_EQ(index, 30);
    std::filesystem::remove_all(root_ / "checkpoints");
    std::filesystem::create_directories(root_ / "checkpoints");
  }
}

TEST_F(PredictTest, NumbersDoNotDependOnTheBatchesOrTheAttempt) {
  StartAttempt start = Predicting("fp32", Trained("fp32"));
  const auto first = RunStoring(start);
  start.mutable_key()->set_attempt(2);
  start.mutable_key()->set_token("token2");
  start.mutable_spec()->mutable_data()->set_batch_size(30);
  const auto second = RunStoring(start);
  EXPECT_EQ(second->outcome->last_step(), 1);
  ASSERT_THAT(first->samples, SizeIs(1));
  ASSERT_THAT(second->samples, SizeIs(1));
  const auto lines = [](const FakeAgent& agent) -> std::vector<std::string> {
    return absl::StrSplit(agent.samples[0].content(), '\n', absl::SkipEmpty());
  };
  const std::vector<std::string> of_first = lines(*first);
  const std::vector<std::string> of_second = lines(*second);
  ASSERT_EQ(of_first.size(), of_second.size());
  for (size_t i = 0; i < of_first.size(); ++i) {
    const nlohmann::json a = nlohmann::json::parse(of_first[i]);
    const nlohmann::json b = nlohmann::json::parse(of_second[i]);
    EXPECT_EQ(a["class"], b["class"]);
    EXPECT_NEAR(a["logits"][0].get<double>(), b["logits"][0].get<double>(), 1e-4);
  }
}

TEST_F(PredictTest, AnAttemptThatIsToLeave_LeavesBetweenTwoBatches) {
  StartAttempt start = Predicting("fp32", Trained("fp32"));
  start.mutable_spec()->mutable_data()->clear_predict();
  Synthesise(*start.mutable_spec()->mutable_data()->mutable_predict()->mutable_synthetic(), {12}, 2'000'000);
  start.mutable_spec()->mutable_data()->set_batch_size(1);
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(start);
  agent.ReadUntil([&] { return agent.state.state() == v1::Attempt::RUNNING; });
  agent.Leave(v1::Job::PAUSE, v1::Reason::USER_PAUSED);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::LEFT);
  EXPECT_EQ(agent.outcome->reason(), v1::Reason::USER_PAUSED);
  EXPECT_LT(agent.outcome->last_step(), 2'000'000);
  EXPECT_THAT(agent.checkpoints, IsEmpty());
}

TEST_F(PredictTest, AnAttemptDoesNotFinishBeforeItsFilesAreStored) {
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(Predicting("fp32", Trained("fp32")));
  agent.ReadUntil([&] { return !agent.samples.empty() && agent.state.step() == 4; });
  EXPECT_FALSE(agent.outcome.has_value());
  agent.Leave(v1::Job::PAUSE, v1::Reason::USER_PAUSED);
  Finish(agent);
  EXPECT_EQ(agent.outcome->kind(), Outcome::LEFT) << "the server had not stored the file yet";
}

TEST_F(PredictTest, AFaultOfTheSpecOrItsFilesIsNamed) {
  const v1::Checkpoint source = Trained("fp32");
  StartAttempt start = Predicting("fp32", source);
  start.mutable_spec()->mutable_data()->mutable_predict()->mutable_idx()->set_images("root/nothing");
  Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("data.predict.idx.images \"root/nothing\""));
  start = Predicting("fp32", source);
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_num_classes(5);
  EXPECT_EQ(Run(start).reason(), v1::Reason::DATA_ERROR);
  start.clear_start_from();
  EXPECT_EQ(Run(start).reason(), v1::Reason::CHECKPOINT_ERROR);
}

}  // namespace
}  // namespace ampd::train
