// Tests of the real ampd-trainer with a fake agent, on text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/train/trainer/fake_agent.h"
#include "tests/worker/train/trainer/trainer_fixture.h"

namespace ampd::train {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kVocabulary = 17;

class TextTest : public TrainerTest {
 protected:
  // Writes a file with two bytes per token.
  void WriteText(const std::string& name, const std::vector<uint16_t>& tokens) {
    std::ofstream file(root_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  }

  // Returns a text of `size` tokens. The preceding token determines about nine in ten tokens, so a model can learn to
  // predict them.
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

TEST_F(TextTest, AGpt2_LearnsInEveryPrecisionAndReportsItsPerplexity) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    const auto agent = RunToOutcome(Gpt2(precision, 80));
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    const v1::FinalMetrics& metrics = agent->outcome->final_metrics();
    EXPECT_NEAR(agent->steps[1].loss, std::log(kVocabulary), 0.1) << "nothing is known at first";
    EXPECT_LT(metrics.eval_loss(), 0.75 * std::log(kVocabulary));
    EXPECT_EQ(metrics.eval_perplexity(), std::exp(metrics.eval_loss()));
    EXPECT_FALSE(metrics.has_eval_accuracy());
    EXPECT_FALSE(metrics.has_eval_top5_accuracy());
    ASSERT_EQ(agent->evals.size(), 1u);
    EXPECT_EQ(agent->evals[0].num_samples(), 31 * 16);  // 500 tokens fill 31 windows of 16 tokens.
    EXPECT_EQ(agent->evals[0].perplexity(), metrics.eval_perplexity());
  }
}

// The model has dropout, whose random numbers depend on the position in the data. A resumed run must draw the same
// numbers.
TEST_F(TextTest, AGpt2ThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8-delayed"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Gpt2(precision, 40);
    const auto whole = RunToOutcome(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    ASSERT_EQ(whole->checkpoints[2].step(), 21);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = whole->checkpoints[2];
    const auto resumed = RunToOutcome(start);
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
  EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome.message(),
              HasSubstr("data.eval.tokens.path \"text/val.bin\": token 321 is 17; the model's vocabulary has 17"));
}

// The same text is written with tokens of 16 bits and of 32 bits. The trainer must find the width itself.
TEST_F(TextTest, TokensWithoutAHeader_AreReadAsTheirNumbersSay) {
  StartAttempt start = Gpt2("fp32", 3);
  const auto narrow = RunToOutcome(start);
  for (const auto& [name, size] : {std::pair("train.bin", 4000), std::pair("val.bin", 500)}) {
    const std::vector<uint16_t> text = Text(static_cast<size_t>(size));
    const std::vector<uint32_t> wide(text.begin(), text.end());
    std::ofstream(root_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(wide.data()), static_cast<std::streamsize>(4 * wide.size()));
  }
  const auto told = RunToOutcome(start);
  ASSERT_EQ(told->outcome->kind(), Outcome::FINISHED) << told->outcome->ShortDebugString();
  EXPECT_EQ(told->outcome->final_metrics().state_hash(), narrow->outcome->final_metrics().state_hash());
  const std::vector<v1::Event> notes = EventsOf(*told, v1::Event::DATA_READ);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[0].message(),
              HasSubstr("data.train.tokens: read as tokens of 32 bits without a header: every second "
                        "16 bits are 0"));
  EXPECT_THAT(notes[1].message(), HasSubstr("data.eval.tokens: read as tokens of 32 bits"));
  EXPECT_THAT(EventsOf(*narrow, v1::Event::DATA_READ)[0].message(), HasSubstr("read as tokens of 16 bits"));
}

// Tests on texts of 3 to 16 tokens. There are two kinds of tokens; a text's class is the kind that is more frequent in
// it. Every second line also has token types.
class TextsTest : public TextTest {
 protected:
  void WriteTexts(const std::string& name, int count, unsigned seed) {
    std::mt19937 random(seed);
    std::ofstream file(root_ / name);
    for (int i = 0; i < count; ++i) {
      const unsigned label = random() % 2;
      std::vector<unsigned> tokens = {1};
      for (unsigned left = 2 + random() % 14; left > 0; --left) {
        const unsigned kind = random() % 10 == 0 ? 1 - label : label;
        tokens.push_back(2 + 2 * (random() % 7) + kind);
      }
      const std::string types =
          i % 2 == 0 ? "" : ", \"token_type_ids\": [" + Joined(std::vector<unsigned>(tokens.size())) + "]";
      file << "{\"input_ids\": [" << Joined(tokens) << "]" << types << ", \"label\": " << label << "}\n";
    }
  }

  static std::string Joined(const std::vector<unsigned>& numbers) {
    std::string text;
    for (const unsigned number : numbers) {
      text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text;
  }

  StartAttempt Bert(const std::string& precision, int64_t steps) {
    StartAttempt start = Gpt2(precision, steps);
    v1::JobSpec& spec = *start.mutable_spec();
    v1::BertClassifierSpec& bert = *spec.mutable_model()->mutable_bert_classifier();
    // BERT applies its norms after the residual additions, and such a network diverges with the learning rate of the
    // other models.
    spec.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.003);
    spec.mutable_schedule()->set_warmup_steps(10);
    bert.set_num_hidden_layers(3);
    bert.set_hidden_size(32);
    bert.set_num_attention_heads(2);
    bert.set_max_position_embeddings(20);
    bert.set_vocab_size(kVocabulary);
    v1::JsonlSource& train = *spec.mutable_data()->mutable_train()->mutable_jsonl();
    train.set_path("text/train.jsonl");
    train.set_sequence_length(16);
    v1::JsonlSource& eval = *spec.mutable_data()->mutable_eval()->mutable_jsonl();
    eval = train;
    eval.set_path("text/val.jsonl");
    WriteTexts("train.jsonl", 400, 1);
    WriteTexts("val.jsonl", 100, 2);
    return start;
  }
};

TEST_F(TextsTest, ABert_LearnsInEveryPrecisionAndReportsItsAccuracy) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    SCOPED_TRACE(precision);
    const auto agent = RunToOutcome(Bert(precision, 60));
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    const v1::FinalMetrics& metrics = agent->outcome->final_metrics();
    EXPECT_NEAR(agent->steps[1].loss, std::log(2), 0.2) << "nothing is known at first";
    EXPECT_GT(metrics.eval_accuracy(), 0.9);
    EXPECT_FALSE(metrics.has_eval_top5_accuracy()) << "of two classes";
    EXPECT_FALSE(metrics.has_eval_perplexity());
    ASSERT_EQ(agent->evals.size(), 1u);
    EXPECT_EQ(agent->evals[0].num_samples(), 100);
  }
}

TEST_F(TextsTest, ABertThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8-delayed"}) {
    SCOPED_TRACE(precision);
    StartAttempt start = Bert(precision, 40);
    start.mutable_spec()->mutable_train()->set_gradient_accumulation(2);
    const auto whole = RunToOutcome(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    ASSERT_EQ(whole->checkpoints[2].step(), 21);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = whole->checkpoints[2];
    const auto resumed = RunToOutcome(start);
    ASSERT_EQ(resumed->outcome->kind(), Outcome::FINISHED) << resumed->outcome->ShortDebugString();
    EXPECT_EQ(resumed->steps.size(), 19u);
    for (const auto& [step, numbers] : resumed->steps) {
      EXPECT_EQ(numbers, whole->steps[step]) << "step " << step;
    }
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
  }
}

StartAttempt WithRnn(StartAttempt start, v1::RnnSpec::Cell cell) {
  start.mutable_key()->set_job_id(start.key().job_id() + (cell == v1::RnnSpec::LSTM ? "-lstm" : "-gru"));
  v1::RnnSpec& rnn = *start.mutable_spec()->mutable_model()->mutable_rnn();
  rnn.set_cell(cell);
  rnn.set_vocab_size(kVocabulary);
  rnn.set_embedding_size(24);
  rnn.set_hidden_size(16);
  rnn.set_num_layers(2);
  rnn.set_bidirectional(true);
  rnn.set_dropout(0.1);
  start.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
  return start;
}

TEST_F(TextsTest, ARecurrentNetwork_LearnsInEveryPrecision) {
  const std::pair<v1::RnnSpec::Cell, const char*> kRuns[] = {{v1::RnnSpec::LSTM, "fp32"},
                                                             {v1::RnnSpec::GRU, "bf16"},
                                                             {v1::RnnSpec::GRU, "fp16"},
                                                             {v1::RnnSpec::LSTM, "torch-amp-bf16"}};
  for (const auto& [cell, precision] : kRuns) {
    SCOPED_TRACE(absl::StrCat(v1::RnnSpec::Cell_Name(cell), " ", precision));
    const auto agent = RunToOutcome(WithRnn(Bert(precision, 60), cell));
    ASSERT_EQ(agent->outcome->kind(), Outcome::FINISHED) << agent->outcome->ShortDebugString();
    EXPECT_NEAR(agent->steps[1].loss, std::log(2), 0.2) << "nothing is known at first";
    EXPECT_GT(agent->outcome->final_metrics().eval_accuracy(), 0.9);
  }
}

// The network has dropout between its layers. A resumed run must draw the same random numbers.
TEST_F(TextsTest, ARecurrentNetworkThatGoesOnFromACheckpoint_ComesOutAsIfItHadNeverStopped) {
  const std::pair<v1::RnnSpec::Cell, const char*> kRuns[] = {
      {v1::RnnSpec::LSTM, "fp32"}, {v1::RnnSpec::GRU, "bf16"}, {v1::RnnSpec::LSTM, "fp16"}};
  for (const auto& [cell, precision] : kRuns) {
    SCOPED_TRACE(absl::StrCat(v1::RnnSpec::Cell_Name(cell), " ", precision));
    StartAttempt start = WithRnn(Bert(precision, 20), cell);
    start.mutable_spec()->mutable_train()->set_gradient_accumulation(2);
    const auto whole = RunToOutcome(start);
    ASSERT_EQ(whole->outcome->kind(), Outcome::FINISHED) << whole->outcome->ShortDebugString();
    ASSERT_EQ(whole->checkpoints[0].step(), 7);
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = whole->checkpoints[0];
    const auto resumed = RunToOutcome(start);
    EXPECT_EQ(resumed->steps.size(), 13u);
    for (const auto& [step, numbers] : resumed->steps) {
      EXPECT_EQ(numbers, whole->steps[step]) << "step " << step;
    }
    EXPECT_EQ(resumed->outcome->final_metrics().state_hash(), whole->outcome->final_metrics().state_hash());
  }
}

TEST_F(TextsTest, AWrongLine_IsADataErrorThatNamesItsPlace) {
  const StartAttempt start = Bert("fp32", 5);
  std::ofstream(root_ / "val.jsonl") << "{\"input_ids\": [1, 17], \"label\": 0}\n";
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::DATA_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("data.eval.jsonl.path \"text/val.jsonl\": line 1: input_ids[1] is 17; the "
                                           "model has 17 tokens in its vocabulary"));
}

TEST_F(TextsTest, TextsThatAreCut_AreReportedForTrainingAndEvaluation) {
  StartAttempt start = Bert("fp32", 2);
  v1::DataSpec& data = *start.mutable_spec()->mutable_data();
  data.mutable_train()->mutable_jsonl()->set_sequence_length(4);
  data.mutable_eval()->mutable_jsonl()->set_sequence_length(4);
  std::ofstream(root_ / "val.jsonl") << "{\"input_ids\": [1, 2, 3, 4, 5], \"label\": 0}\n"
                                     << "{\"input_ids\": [1, 2, 3, 4], \"label\": 1}\n";
  const std::vector<v1::Event> warnings = EventsOf(*RunToOutcome(start), v1::Event::WARNING);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0].message(), ContainsRegex("data.train.jsonl: [0-9]+ of 400 texts are longer than "
                                                   "sequence_length and were cut"));
  EXPECT_EQ(warnings[1].message(), "data.eval.jsonl: 1 of 2 texts are longer than sequence_length and were cut");
}

TEST_F(TextsTest, TextWithALabelAPosition_IsASpecError) {
  StartAttempt start = Bert("fp32", 5);
  *start.mutable_spec()->mutable_data()->mutable_eval() = Gpt2("fp32", 5).spec().data().eval();
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("the model takes attention_mask, which the data does not have"));
}

TEST_F(TextTest, DataOfAnotherKindThanTheModels_IsASpecError) {
  StartAttempt start = Gpt2("fp32", 5);
  Synthesise(*start.mutable_spec()->mutable_data()->mutable_eval()->mutable_synthetic(), {16}, 20);
  const Outcome outcome = Run(start);
  EXPECT_EQ(outcome.reason(), v1::Reason::SPEC_ERROR);
  EXPECT_THAT(outcome.message(), HasSubstr("the data has images and the model takes input_ids"));
}

}  // namespace
}  // namespace ampd::train
