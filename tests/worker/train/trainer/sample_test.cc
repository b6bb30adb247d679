// Tests of the real ampd-trainer with a fake agent, in which the model generates samples during training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/images/picture.h"
#include "data/text/utf8.h"
#include "models/samples.h"
#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kLine[] = "the quick brown fox jumps over the lazy dog.\n";
constexpr int kContext = 16;

std::map<int64_t, std::string> ContentsOf(const FakeAgent& agent) {
  std::map<int64_t, std::string> contents;
  for (const v1::Sample& sample : agent.samples) {
    EXPECT_TRUE(contents.emplace(sample.step(), sample.content()).second) << "two of step " << sample.step();
  }
  return contents;
}

std::vector<int64_t> SampleSteps(const std::vector<v1::Sample>& samples) {
  std::vector<int64_t> steps;
  std::transform(samples.begin(), samples.end(), std::back_inserter(steps),
                 [](const v1::Sample& sample) { return sample.step(); });
  return steps;
}

class SampleTest : public TrainerTest {
 protected:
  // An attempt that trains a byte-level GPT-2 on one repeated line, until the model has memorized it.
  StartAttempt Gpt2(const std::string& precision, int64_t steps) {
    StartAttempt start = Mlp(precision, steps);
    start.mutable_key()->set_job_id("j-" + precision);
    (*start.mutable_data_roots())["text"] = root_.string();
    v1::JobSpec& spec = *start.mutable_spec();
    v1::Gpt2Spec& gpt2 = *spec.mutable_model()->mutable_gpt2();
    gpt2.set_n_layer(2);
    gpt2.set_n_embd(32);
    gpt2.set_n_head(2);
    gpt2.set_n_positions(20);
    gpt2.set_vocab_size(128);
    gpt2.set_dropout(0.1);
    v1::TokensSource& train = *spec.mutable_data()->mutable_train()->mutable_tokens();
    train.set_path("text/train.bin");
    train.set_format(v1::TokensSource::UINT16);
    train.set_sequence_length(kContext);
    spec.mutable_data()->clear_eval();
    std::ofstream file(root_ / "train.bin", std::ios::binary);
    for (int i = 0; i < 100; ++i) {
      for (const char* byte = kLine; *byte != '\0'; ++byte) {
        file << *byte << '\0';
      }
    }
    return start;
  }

  StartAttempt Gan(const std::string& precision, int64_t steps) {
    StartAttempt start = Mlp(precision, steps);
    start.mutable_key()->set_job_id("j-gan-" + precision);
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

  static void AskForText(StartAttempt& start, int64_t every_steps, double temperature = 1) {
    v1::SampleSpec& sample = *start.mutable_spec()->mutable_sample();
    sample.set_every_steps(every_steps);
    sample.mutable_text()->set_prompt("the ");
    sample.mutable_text()->set_tokens(60);
    sample.mutable_text()->set_temperature(temperature);
  }
  static void AskForImages(StartAttempt& start, int64_t every_steps) {
    start.mutable_spec()->mutable_sample()->set_every_steps(every_steps);
    start.mutable_spec()->mutable_sample()->mutable_images()->set_rows(3);
  }
};

TEST_F(SampleTest, AGpt2_WritesWhatItHasLearned) {
  for (const char* precision : {"fp32", "bf16", "fp8"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Gpt2(precision, 200);
    AskForText(start, 70, /*temperature=*/0);
    const auto agent = RunToOutcome(start);
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    EXPECT_THAT(SampleSteps(agent->samples), ElementsAre(70, 140, 200));
    for (const v1::Sample& sample : agent->samples) {
      EXPECT_EQ(sample.file_name(), "sample.txt");
      EXPECT_EQ(sample.media_type(), "text/plain");
      EXPECT_THAT(sample.content(), StartsWith("the "));
      EXPECT_EQ(text::FindInvalidUtf8(sample.content()), std::string::npos);
    }
    // The text repeats one line. A context of 16 bytes determines the position in the line, but the prompt of four
    // bytes does not: it occurs before two different words. So the first bytes of the sample are not compared.
    const std::string& last = agent->samples.back().content();
    ASSERT_EQ(last.size(), 64u);
    EXPECT_THAT(std::string(kLine) + kLine + kLine, HasSubstr(last.substr(20)));
  }
}

TEST_F(SampleTest, EverySampleComesOnceWithASequenceOfItsOwn) {
  StartAttempt start = Gpt2("fp32", 20);
  AskForText(start, 5);
  const auto agent = RunToOutcome(start);
  EXPECT_THAT(SampleSteps(agent->samples), ElementsAre(5, 10, 15, 20));
  EXPECT_EQ(agent->sequences.size(), agent->outcome->last_sequence());
  for (const auto& [sequence, count] : agent->sequences) {
    EXPECT_EQ(count, 1) << sequence;
  }
  for (const v1::Sample& sample : agent->samples) {
    EXPECT_GT(sample.attempt_sequence(), agent->sequence_of[sample.step()]) << "behind its step";
  }
  EXPECT_GT(ContentsOf(*agent).at(5), "") << "drawn";
  EXPECT_NE(ContentsOf(*agent).at(5), ContentsOf(*agent).at(10));
}

TEST_F(SampleTest, WithoutASteadyRate_ThereIsOneAtTheEnd) {
  StartAttempt start = Gan("fp32", 8);
  AskForImages(start, 0);
  EXPECT_THAT(SampleSteps(RunToOutcome(start)->samples), ElementsAre(8));
  start.mutable_spec()->clear_sample();
  start.mutable_key()->set_job_id("j-none");
  EXPECT_THAT(RunToOutcome(start)->samples, IsEmpty());
}

TEST_F(SampleTest, AGenerator_DrawsASquareOfPictures) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Gan(precision, 120);
    AskForImages(start, 50);
    const auto agent = RunToOutcome(start);
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    EXPECT_THAT(SampleSteps(agent->samples), ElementsAre(50, 100, 120));
    for (const v1::Sample& sample : agent->samples) {
      EXPECT_EQ(sample.file_name(), "sample.png");
      EXPECT_EQ(sample.media_type(), "image/png");
      const auto picture = images::DecodePicture(sample.content());
      ASSERT_TRUE(picture.ok()) << picture.status();
      EXPECT_EQ(picture->width, 88);
      EXPECT_EQ(picture->height, 88);
      const auto at = [&](size_t x, size_t y) { return picture->pixels[3 * (88 * y + x)]; };
      EXPECT_EQ(at(28, 5), 0) << "between two pictures";
      EXPECT_EQ(at(5, 59), 0);
      EXPECT_GT(at(14, 14), 0);
    }
    EXPECT_NE(agent->samples[0].content(), agent->samples[1].content()) << "the generator has learned";
    // Only the last sample is compared. The pictures of earlier samples are very similar to each other, because the
    // running statistics of norms need many steps to match the generator.
    const auto last = images::DecodePicture(agent->samples.back().content());
    ASSERT_TRUE(last.ok()) << last.status();
    const auto* const row = &last->pixels[size_t{3} * 88 * 14];
    EXPECT_FALSE(std::equal(row, row + 84, row + 90)) << "two pictures are of other noise";
  }
}

struct Case {
  const char* precision;
  bool is_gan;
};

// Samples do not change any number of the training, not even with averages and dropout.
TEST_F(SampleTest, NumbersOfTheTrainingAreThoseWithoutSamples) {
  for (const auto& [precision, is_gan] :
       {Case{"bf16", false}, {"fp8-delayed", false}, {"fp32", true}, {"fp16", true}}) {
    SCOPED_TRACE(absl::StrCat(precision, is_gan ? " dcgan" : " gpt2"));
    StartAttempt start = is_gan ? Gan(precision, 25) : Gpt2(precision, 25);
    start.mutable_spec()->mutable_optimizer()->set_ema_decay(0.75);
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision, is_gan, "-plain"));
    const auto plain = RunToOutcome(start);
    ASSERT_EQ(plain->outcome->kind(), Outcome::FINISHED) << plain->outcome->ShortDebugString();
    start.mutable_key()->set_job_id(absl::StrCat("j-", precision, is_gan));
    is_gan ? AskForImages(start, 4) : AskForText(start, 4);
    const auto sampled = RunToOutcome(start);
    EXPECT_EQ(sampled->samples.size(), 7u);
    ASSERT_EQ(sampled->steps.size(), plain->steps.size());
    for (const auto& [step, numbers] : sampled->steps) {
      if (!numbers.skipped) {  // The norm of a skipped step may be NaN, which is unequal to itself.
        EXPECT_EQ(numbers, plain->steps[step]) << "step " << step;
      }
    }
    const v1::FinalMetrics& metrics = sampled->outcome->final_metrics();
    EXPECT_EQ(metrics.state_hash(), plain->outcome->final_metrics().state_hash());
    EXPECT_EQ(metrics.skipped_steps(), plain->outcome->final_metrics().skipped_steps());
    // Drawing samples keeps no tensors for a backward pass, so the peak of memory is almost as in the run without
    // samples.
    EXPECT_LE(static_cast<double>(metrics.peak_memory_bytes()),
              1.02 * static_cast<double>(plain->outcome->final_metrics().peak_memory_bytes()));
  }
}

TEST_F(SampleTest, KilledAndResumed_ItDrawsWhatTheRunNeverInterruptedDraws) {
  for (const auto& [precision, is_gan] : {Case{"fp32", false}, {"fp16", false}, {"bf16", true}}) {
    StartAttempt start = is_gan ? Gan(precision, 40) : Gpt2(precision, 40);
    const std::string job = absl::StrCat("j-", precision, is_gan ? "-dcgan" : "-gpt2");
    SCOPED_TRACE(job);
    is_gan ? AskForImages(start, 5) : AskForText(start, 5);
    start.mutable_key()->set_job_id(job + "-whole");
    const auto whole = RunToOutcome(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    start.mutable_key()->set_job_id(job);
    FakeAgent killed = Spawn();
    killed.Connect();
    killed.Start(start);
    killed.ReadUntil([&] { return killed.steps.contains(17) && !killed.checkpoints.empty(); });
    killed.Kill(SIGKILL);
    EXPECT_EQ(killed.WaitForExit(), -SIGKILL);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = killed.checkpoints.back();
    const int64_t from = start.start_from().step();
    const auto resumed = RunToOutcome(start);
    ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
    std::map<int64_t, std::string> expected = ContentsOf(*whole);
    EXPECT_EQ(expected.size(), 8u);
    std::erase_if(expected, [from](const auto& one) { return one.first <= from; });
    EXPECT_EQ(ContentsOf(*resumed), expected);
  }
}

// The last checkpoint is saved before the sample of its step is drawn. So an attempt that starts from this checkpoint
// must draw that sample. All other checkpoints are saved after the sample of their step.
TEST_F(SampleTest, FromACheckpoint_NoSampleIsLeftOut) {
  StartAttempt start = Gpt2("fp32", 14);
  AskForText(start, 7);
  const auto whole = RunToOutcome(start);
  ASSERT_THAT(SampleSteps(whole->samples), ElementsAre(7, 14));
  ASSERT_EQ(whole->checkpoints.size(), 2u);
  EXPECT_GE(whole->checkpoint_after[7], whole->samples[0].attempt_sequence());
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = whole->checkpoints.back();
  const auto again = RunToOutcome(start);
  ASSERT_THAT(SampleSteps(again->samples), ElementsAre(14));
  EXPECT_EQ(again->samples[0].content(), whole->samples[1].content());
}

// The first attempt is ordered to leave while it draws a sample in the middle of the run. The second attempt is ordered
// to leave while it draws the last sample, which is drawn after the last checkpoint.
TEST_F(SampleTest, OrderedToLeaveWhileItDraws_ItLeavesThatSampleToTheNextAttempt) {
  StartAttempt start = Gpt2("fp32", 10);
  AskForText(start, 5);
  start.mutable_spec()->mutable_sample()->mutable_text()->set_tokens(models::kMaxSampleTokens);
  start.mutable_spec()->mutable_model()->mutable_gpt2()->set_n_layer(6);  // Makes drawing a sample take seconds.
  start.mutable_key()->set_job_id("j-whole");
  const auto whole = RunToOutcome(start);
  ASSERT_THAT(SampleSteps(whole->samples), ElementsAre(5, 10));
  start.mutable_key()->set_job_id("j");
  std::map<int64_t, std::string> drawn;
  for (const int step : {5, 10}) {
    FakeAgent agent = Spawn();
    agent.Connect();
    agent.Start(start);
    agent.ReadUntil([&] { return agent.steps.contains(step); });
    agent.Leave(v1::Job::PAUSE, v1::Reason::USER_PAUSED);
    Finish(agent);
    ASSERT_EQ(agent.outcome->kind(), Outcome::LEFT) << agent.outcome->ShortDebugString();
    EXPECT_EQ(agent.outcome->last_step(), step);
    drawn.merge(ContentsOf(agent));
    EXPECT_FALSE(drawn.contains(step));
    ASSERT_FALSE(agent.checkpoints.empty());
    start.mutable_key()->set_attempt(start.key().attempt() + 1);
    *start.mutable_start_from() = agent.checkpoints.back();
    EXPECT_EQ(start.start_from().step(), step);
  }
  drawn.merge(ContentsOf(*RunToOutcome(start)));
  EXPECT_EQ(drawn, ContentsOf(*whole));
}

// No evaluation after the first is an improvement. With a patience of 2, training therefore stops at the third
// evaluation, at step 9.
TEST_F(SampleTest, OfARunThatStopsEarly_TheLastOneIsOfTheStepAtWhichItStops) {
  StartAttempt start = Gpt2("fp32", 20);
  AskForText(start, 5);
  *start.mutable_spec()->mutable_data()->mutable_eval() = start.spec().data().train();
  start.mutable_spec()->mutable_eval()->set_every_steps(3);
  start.mutable_spec()->mutable_train()->mutable_early_stopping()->set_patience(2);
  start.mutable_spec()->mutable_train()->mutable_early_stopping()->set_min_delta(1000);
  start.mutable_key()->set_job_id("j-whole");
  const auto whole = RunToOutcome(start);
  EXPECT_EQ(whole->outcome->last_step(), 9);
  EXPECT_THAT(SampleSteps(whole->samples), ElementsAre(5, 9));

  // Now the trainer is ordered to leave while it draws the last sample.
  start.mutable_key()->set_job_id("j");
  start.mutable_spec()->mutable_sample()->set_every_steps(0);
  start.mutable_spec()->mutable_sample()->mutable_text()->set_tokens(models::kMaxSampleTokens);
  start.mutable_spec()->mutable_model()->mutable_gpt2()->set_n_layer(6);  // Makes drawing a sample take seconds.
  FakeAgent agent = Spawn();
  agent.Connect();
  agent.Start(start);
  agent.ReadUntil([&] { return !agent.checkpoints.empty() && agent.checkpoints.back().step() == 9; });
  agent.Leave(v1::Job::PAUSE, v1::Reason::USER_PAUSED);
  Finish(agent);
  ASSERT_EQ(agent.outcome->kind(), Outcome::LEFT) << agent.outcome->ShortDebugString();
  EXPECT_THAT(agent.samples, IsEmpty());
  start.mutable_key()->set_attempt(2);
  *start.mutable_start_from() = agent.checkpoints.back();
  const auto resumed = RunToOutcome(start);
  EXPECT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
  EXPECT_EQ(resumed->outcome->last_step(), 9);
  EXPECT_THAT(resumed->steps, IsEmpty());
  EXPECT_THAT(SampleSteps(resumed->samples), ElementsAre(9));
}

TEST_F(SampleTest, SamplesThatItCantDraw_AreRefused) {
  const auto message_of = [&](const StartAttempt& start) {
    const Outcome outcome = Run(start);
    EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR) << outcome.ShortDebugString();
    return outcome.message();
  };
  StartAttempt start = Mlp("fp32", 5);
  AskForText(start, 5);
  EXPECT_THAT(message_of(start), HasSubstr("model.mlp draws no samples"));
  start = Gpt2("fp32", 5);
  AskForImages(start, 5);
  EXPECT_THAT(message_of(start), HasSubstr("sample.images takes a GAN"));
  start = Gpt2("fp32", 5);
  AskForText(start, 5);
  start.mutable_spec()->mutable_sample()->mutable_text()->set_prompt("\xc3\xa9");
  EXPECT_THAT(message_of(start), HasSubstr("all of them below 128"));
  start = Gan("fp32", 5);
  AskForImages(start, 5);
  start.mutable_spec()->mutable_sample()->mutable_images()->set_rows(17);
  EXPECT_THAT(message_of(start), HasSubstr("sample.images.rows is 17; must be 1 to 16"));
}

}  // namespace
}  // namespace ampd::train
