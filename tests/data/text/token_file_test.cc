#include "data/text/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "data/text/word_piece_tokenizer.h"
#include "data/tokens.h"

namespace ampd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer that encodes every byte as the highest token of its vocabulary.
class WideTokenizer : public Tokenizer {
 public:
  explicit WideTokenizer(int64_t vocabulary) : vocabulary_(vocabulary) {}
  void Encode(std::string_view text, Tokens* tokens) override {
    tokens->insert(tokens->end(), text.size(), static_cast<uint32_t>(vocabulary_ - 1));
  }
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  const int64_t vocabulary_;
};

class TokenFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tokens-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("abc");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& text) { std::ofstream(root_ / "text", std::ios::binary) << text; }
  TokenFileOptions Options(TokenFileFormat format = TokenFileFormat::kLlmC) {
    return {.text = root_ / "text", .destination = root_ / "out", .format = format};
  }
  // Reads the written file with the reader that a job uses.
  std::vector<int64_t> Read(data::TokenFormat format, int64_t vocabulary) {
    const auto tokens = data::ReadTokens({.root = root_, .path = "out", .name = "out"}, format, 0, vocabulary);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() ? std::visit([](const auto& all) { return std::vector<int64_t>(all.begin(), all.end()); },
                                    tokens->tokens)
                       : std::vector<int64_t>();
  }
  size_t NumFiles() { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(root_), {})); }

  std::filesystem::path root_;
};

TEST_F(TokenFileTest, EveryFormat_IsReadBackByTheReaderOfJobs) {
  const std::pair<TokenFileFormat, data::TokenFormat> formats[] = {
      {TokenFileFormat::kLlmC, data::TokenFormat::kAuto},
      {TokenFileFormat::kUint16, data::TokenFormat::kUint16},
      {TokenFileFormat::kUint32, data::TokenFormat::kUint32}};
  for (const auto& [format, read_as] : formats) {
    TokenFileOptions options = Options(format);
    options.replace = true;
    const auto tokenizer = MakeByteTokenizer();
    const auto written = WriteTokenFile(options, *tokenizer);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->num_tokens, 3);
    EXPECT_EQ(written->token_bytes, format == TokenFileFormat::kUint32 ? 4 : 2);
    EXPECT_THAT(Read(read_as, 256), ElementsAre('a', 'b', 'c'));
  }
}

TEST_F(TokenFileTest, AVocabularyBeyond16Bits_HasWideTokensOrNone) {
  WideTokenizer just_fits(1 << 16);
  ASSERT_TRUE(WriteTokenFile(Options(TokenFileFormat::kUint16), just_fits).ok());
  EXPECT_THAT(Read(data::TokenFormat::kUint16, 1 << 16), ElementsAre(65535, 65535, 65535));
  std::filesystem::remove(root_ / "out");
  WideTokenizer wide((1 << 16) + 1);
  EXPECT_EQ(WriteTokenFile(Options(TokenFileFormat::kUint16), wide).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteTokenFile(Options(), wide)->token_bytes, 4);
  EXPECT_THAT(Read(data::TokenFormat::kAuto, (1 << 16) + 1), ElementsAre(65536, 65536, 65536));
}

TEST_F(TokenFileTest, ALongText_IsTokenizedAsIfInOnePieceAndTellsHowFarItIs) {
  const auto tokenizer = WordPieceTokenizer::Make("[UNK]\nab\n##c\nd\n", false);
  std::string text;
  for (int i = 0; i < 400'000; ++i) {
    text += i % 7 == 0 ? "abc\n" : "ab  d ";
  }
  Write(text);
  std::vector<int64_t> told;
  TokenFileOptions options = Options();
  options.progress = [&](int64_t num_read, int64_t num_bytes) {
    EXPECT_EQ(num_bytes, static_cast<int64_t>(text.size()));
    told.push_back(num_read);
    return true;
  };
  ASSERT_TRUE(WriteTokenFile(options, **tokenizer).ok());
  Tokens whole;
  (*tokenizer)->Encode(text, &whole);
  EXPECT_EQ(Read(data::TokenFormat::kLlmC, 4), std::vector<int64_t>(whole.begin(), whole.end()));
  EXPECT_GT(told.size(), 2u);
  EXPECT_EQ(told.back(), static_cast<int64_t>(text.size()));
}

TEST_F(TokenFileTest, AFailure_LeavesNothingBehind) {
  Write("abc \xff");
  const auto tokenizer = WordPieceTokenizer::Make("[UNK]\n", false);
  EXPECT_EQ(WriteTokenFile(Options(), **tokenizer).status().code(), absl::StatusCode::kDataLoss);
  Write("abc");
  TokenFileOptions stopped = Options();
  stopped.progress = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(WriteTokenFile(stopped, **tokenizer).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(TokenFileTest, AFileThatIsThere_IsReplacedOnlyWhenAsked) {
  std::ofstream(root_ / "out") << "mine";
  const auto tokenizer = MakeByteTokenizer();
  const absl::Status status = WriteTokenFile(Options(), *tokenizer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out: it is there already"));
  EXPECT_EQ(*ReadFile(root_ / "out", 100), "mine");
  TokenFileOptions replacing = Options();
  replacing.replace = true;
  EXPECT_TRUE(WriteTokenFile(replacing, *tokenizer).ok());
  EXPECT_EQ(NumFiles(), 2u);
}

}  // namespace
}  // namespace ampd::text
