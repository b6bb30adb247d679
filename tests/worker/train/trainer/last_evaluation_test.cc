// Tests of the real ampd-trainer with a fake agent: what a run leaves if its last evaluation fails or never happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

using LastEvaluationTest = TrainerTest;

// Changes the attempt so that a batch of the evaluation needs a terabyte of memory, but a batch of a training step only
// 8 MiB.
StartAttempt TooLargeToEvaluate(StartAttempt start) {
  v1::MlpSpec& mlp = *start.mutable_spec()->mutable_model()->mutable_mlp();
  mlp.clear_hidden();
  mlp.add_hidden(1 << 18);
  v1::DataSpec& data = *start.mutable_spec()->mutable_data();
  data.mutable_eval()->mutable_synthetic()->set_num_samples(1 << 20);
  data.set_eval_batch_size(1 << 20);
  return start;
}

TEST_F(LastEvaluationTest, WithoutMemoryForIt_WhatWasTrainedIsSaved) {
  const StartAttempt start = TooLargeToEvaluate(Mlp("fp32", 3));
  const auto failed = RunToOutcome(start);
  ASSERT_EQ(failed->outcome->reason(), v1::Reason::OUT_OF_MEMORY) << failed->outcome->ShortDebugString();
  EXPECT_EQ(failed->outcome->last_step(), 3);
  EXPECT_THAT(failed->evals, IsEmpty());
  ASSERT_THAT(failed->checkpoints, SizeIs(1));
  EXPECT_EQ(failed->checkpoints[0].step(), 3);

  StartAttempt smaller = start;
  smaller.mutable_key()->set_attempt(2);
  smaller.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic()->set_num_samples(20);
  smaller.mutable_spec()->mutable_data()->clear_eval_batch_size();
  *smaller.mutable_start_from() = failed->checkpoints[0];
  const auto finished = RunToOutcome(smaller);
  EXPECT_EQ(finished->outcome->kind(), Outcome::FINISHED) << finished->outcome->ShortDebugString();
  EXPECT_THAT(finished->steps, IsEmpty());
  EXPECT_TRUE(finished->outcome->final_metrics().has_eval_loss());
}

// A run that was killed between its last checkpoint and its last evaluation leaves only the checkpoint.
TEST_F(LastEvaluationTest, ARunKilledBeforeIt_EvaluatesAndEndsAsTheWholeOne) {
  for (const int64_t eval_every_steps : {0, 5}) {
    for (const bool keep_best : {false, true}) {
      StartAttempt start = Mlp("bf16", 20, eval_every_steps == 0 ? 1 : 3);
      start.mutable_spec()->mutable_eval()->set_every_steps(eval_every_steps);
      start.mutable_spec()->mutable_checkpoint()->set_keep_best(keep_best);
      start.mutable_key()->set_job_id(keep_best ? "j-best" : "j-plain");
      const auto whole = RunToOutcome(start);
      ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
      ASSERT_EQ(whole->checkpoints.back().step(), 20);
      EXPECT_FALSE(whole->checkpoints.back().has_eval_loss());
      start.mutable_key()->set_attempt(start.key().attempt() + 1);
      *start.mutable_start_from() = whole->checkpoints.back();
      const auto resumed = RunToOutcome(start);
      EXPECT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
      EXPECT_THAT(resumed->steps, IsEmpty());
      ASSERT_THAT(resumed->evals, SizeIs(1));
      EXPECT_EQ(resumed->evals[0].step(), 20);
      const v1::FinalMetrics& expected = whole->outcome->final_metrics();
      const v1::FinalMetrics& actual = resumed->outcome->final_metrics();
      EXPECT_EQ(actual.eval_loss(), expected.eval_loss());
      EXPECT_EQ(actual.eval_loss(), whole->evals.back().loss());
      EXPECT_EQ(actual.train_loss(), expected.train_loss());
      EXPECT_EQ(actual.state_hash(), expected.state_hash());
    }
  }
}

}  // namespace
}  // namespace ampd::train
