// The real ampd-trainer, under a fake agent, on text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/train/fake_agent.h"
#include "tests/worker/train/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::HasSubstr;

constexpr int kVocabulary = 17;

class TextTest : public TrainerTest {
 protected:
  // Two bytes a token.
  void WriteText(const std::string& name, const std::vector<uint16_t>& tokens) {
    std::ofstream file(root_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  }

  // Every token but each tenth follows from the last one.
  static std::vector<uint16_t> Text(size_t size) {
    std::mt19937 random(7);
    std::vector<uint16_t> tokens = {1};
    while (tokens.size() < size) {
      const auto next = static_cast<unsigned>(3 * tokens.back() + 1);
      tokens.push_back(static_cast<uint16_t>((random() % 10 == 0 ? random() : next) % kVocabulary));
    }
    return tokens;
  }

  StartAttempt Gpt2(const std::string& precision, int64_t steps) {
    StartAttempt start = Mlp(precision, steps);
    start.mutable_key()->set_job_id("j-" + precision);
    (*start.mutable_data_roots())["text"] = root_.string();
    v1::JobSpec& spec = *start.mutable_spec();
    v1::Gpt2Spec& gpt2 = *spec.mutable_model()->mutable_gpt2();
    gpt2.set_n_layer(3);
    gpt2.set_n_embd(32);
    gpt2.set_n_head(2);
    gpt2.set_n_positions(20);
    gpt2.set_vocab_size(kVocabulary);
    v1::TokensSource& train = *spec.mutable_data()->mutable_train()->mutable_tokens();
    train.set_path("text/train.bin");
    train.set_sequence_length(16);
    v1::TokensSource& eval = *spec.mutable_data()->mutable_eval()->mutable_tokens();
    eval = train;
    eval.set_path("text/val.bin");
    spec.mutable_checkpoint()->set_keep(10);
    WriteText("train.bin", Text(4000));
    WriteText("val.bin", Text(500));
    return start;
  }
};

TEST_F(TextTest, AGpt2_LearnsInEveryPrecisionAndTellsItsPerplexity) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    const auto agent = Told(Gpt2(precision, 80));
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    const v1::FinalMetrics& metrics = agent->outcome->final_metrics();
    EXPECT_NEAR(agent->steps[1].loss, std::log(kVocabulary), 0.1) << "nothing is known at first";
    EXPECT_LT(metrics.eval_loss(), 0.75 * std::log(kVocabulary));
    EXPECT_EQ(metrics.eval_perplexity(), std::exp(metrics.eval_loss()));
    EXPECT_FALSE(metrics.has_eval_accuracy());
    ASSERT_EQ(agent->evals.size(), 1u);
    EXPECT_EQ(agent->evals[0].num_samples(), 31 * 16);  // tokens of the windows that 500 fill
    EXPECT_EQ(agent->evals[0].perplexity(), metrics.eval_perplexity());
  }
}

// With dropout, whose numbers depend on the place in the data.
TEST_F(TextTest, AGpt2ThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8-delayed"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Gpt2(precision, 40);
    const auto whole = Told(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    ASSERT_EQ(whole->checkpoints[2].step(), 21);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = whole->checkpoints[2];
    const auto resumed = Told(start);
    ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
    EXPECT_EQ(resumed->steps.size(), 19u);
    for (const auto& [step, numbers] : resumed->steps) {
      EXPECT_EQ(numbers, whole->steps[step]) << "step " << step;
    }
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
  }
}

TEST_F(TextTest, ATokenBeyondTheVocabulary_IsADataErrorThatNamesItsPlace) {
  StartAttempt start = Gpt2("fp32", 5);
  std::vector<uint16_t> text = Text(500);
  text[321] = kVocabulary;
  WriteText("val.bin", text);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::DATA_ERROR);
  EXPECT_THAT(outcome.message(),
              HasSubstr("data.eval.tokens.path \"text/val.bin\": token 321 is 17; the model's vocabulary has 17"));
}

TEST_F(TextTest, DataOfAnotherKindThanTheModels_IsASpecError) {
  StartAttempt start = Gpt2("fp32", 5);
  Synthesise(*start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic(), {16}, 20);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("the data has images and the model takes input_ids"));
}

}  // namespace
}  // namespace ampd::train
