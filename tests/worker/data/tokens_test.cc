#include "worker/data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

// Numbers as they lie in a file.
template <typename Number>
std::string Bytes(const std::vector<Number>& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string Header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return Bytes(words);
}

class TokensTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/tokens-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  absl::StatusOr<Tokens> Read(const std::string& content, TokenFormat format, int64_t limit = 0,
                              int64_t vocabulary = 100) {
    std::ofstream(root_ / "text", std::ios::binary) << content;
    return ReadTokens({root_, "text", "the text"}, format, limit, vocabulary);
  }

  template <typename Token = uint16_t>
  std::vector<Token> Good(const std::string& content, TokenFormat format, int64_t limit = 0) {
    const auto tokens = Read(content, format, limit);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() && std::holds_alternative<std::vector<Token>>(*tokens) ? std::get<std::vector<Token>>(*tokens)
                                                                              : std::vector<Token>();
  }
  // "DATA_ERROR: what".
  std::string Bad(const std::string& content, TokenFormat format) {
    const absl::Status status = Read(content, format).status();
    return absl::StrCat(ReasonOf(status), ": ", std::string(status.message()));
  }

  std::filesystem::path root_;
};

TEST_F(TokensTest, EveryFormatIsReadAsItIsWritten) {
  const std::string narrow = Bytes<uint16_t>({7, 99, 0});
  const std::string wide = Bytes<uint32_t>({7, 99, 0});
  EXPECT_THAT(Good(narrow, TokenFormat::kUint16), ElementsAre(7, 99, 0));
  EXPECT_THAT(Good<uint32_t>(wide, TokenFormat::kUint32), ElementsAre(7, 99, 0));
  EXPECT_THAT(Good(Header(20240520, 1, 3) + narrow, TokenFormat::kLlmC), ElementsAre(7, 99, 0));
  EXPECT_THAT(Good<uint32_t>(Header(20240801, 7, 3) + wide, TokenFormat::kLlmC), ElementsAre(7, 99, 0));
}

TEST_F(TokensTest, LlmCsFilesAreKnownByTheirMagicAndOthersAreNarrow) {
  EXPECT_THAT(Good(Header(20240520, 1, 1) + Bytes<uint16_t>({5}), TokenFormat::kAuto), ElementsAre(5));
  EXPECT_THAT(Good<uint32_t>(Header(20240801, 7, 1) + Bytes<uint32_t>({5}), TokenFormat::kAuto), ElementsAre(5));
  EXPECT_THAT(Good(Bytes<uint16_t>({5, 6, 7}), TokenFormat::kAuto), ElementsAre(5, 6, 7));
  EXPECT_THAT(Good(Bytes<uint16_t>({5}), TokenFormat::kAuto), ElementsAre(5));
}

// gzip's magic is a token like others.
TEST_F(TokensTest, WithoutAHeaderTheWidthOfALargeVocabularysTokensMustBeSaid) {
  const std::string wide = Bytes<uint32_t>({1, 2});
  EXPECT_TRUE(Read(wide, TokenFormat::kAuto, 0, 1 << 16).ok());
  const absl::Status status = Read(wide, TokenFormat::kAuto, 0, (1 << 16) + 1).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("say which format it has"));
  EXPECT_TRUE(Read(wide, TokenFormat::kUint32, 0, (1 << 16) + 1).ok());
}

TEST_F(TokensTest, ATextThatBeginsLikeGzipIsReadAsItIs) {
  const auto tokens = Read(Bytes<uint16_t>({0x8b1f, 8, 8}), TokenFormat::kAuto, 0, 65536);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(std::get<std::vector<uint16_t>>(*tokens), ElementsAre(0x8b1f, 8, 8));
}

TEST_F(TokensTest, BehindTheLimitNothingIsLookedAt) {
  EXPECT_THAT(Good(Bytes<uint16_t>({1, 2, 9999}), TokenFormat::kUint16, 2), ElementsAre(1, 2));
  EXPECT_THAT(Good(Bytes<uint16_t>({1, 2}), TokenFormat::kUint16, 5), ElementsAre(1, 2));
}

// More than is read at once.
TEST_F(TokensTest, ALongTextIsReadWhole) {
  std::vector<uint16_t> text(3 << 19);
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<uint16_t>(i * 7 % 100);
  }
  EXPECT_EQ(Good(Bytes(text), TokenFormat::kUint16), text);
  text[(2 << 19) + 5] = 100;
  EXPECT_EQ(Bad(Bytes(text), TokenFormat::kUint16),
            "DATA_ERROR: the text: token 1048581 is 100; the model's vocabulary has 100");
}

TEST_F(TokensTest, EveryDefectIsADataErrorThatNamesTheFileAndTheValue) {
  EXPECT_EQ(Bad("abc", TokenFormat::kUint16), "DATA_ERROR: the text: has 3 bytes, no whole number of tokens of 2");
  EXPECT_EQ(Bad("abcdef", TokenFormat::kUint32), "DATA_ERROR: the text: has 6 bytes, no whole number of tokens of 4");
  EXPECT_EQ(Bad("abcdef", TokenFormat::kLlmC), "DATA_ERROR: the text: has 6 bytes; llm.c's header has 1024");
  EXPECT_EQ(Bad(Header(20240521, 1, 0), TokenFormat::kLlmC),
            "DATA_ERROR: the text: magic 20240521, expected 20240520 or 20240801");
  EXPECT_EQ(Bad(Header(20240520, 2, 0), TokenFormat::kAuto),
            "DATA_ERROR: the text: version 2, expected 1 with magic 20240520");
  EXPECT_EQ(Bad(Header(20240801, 1, 0), TokenFormat::kAuto),
            "DATA_ERROR: the text: version 1, expected 7 with magic 20240801");
  EXPECT_EQ(Bad(Bytes<uint32_t>({1, 4'000'000'000}), TokenFormat::kUint32),
            "DATA_ERROR: the text: token 1 is 4000000000; the model's vocabulary has 100");
}

TEST_F(TokensTest, AHeaderThatTellsOfMoreOrFewerTokensIsADataError) {
  const std::string three = Bytes<uint16_t>({1, 2, 3});
  for (const int32_t count : {0, 2, 4, -3, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(
        Bad(Header(20240520, 1, count) + three, TokenFormat::kAuto),
        absl::StrCat("DATA_ERROR: the text: the header tells of ", count, " tokens of 2 bytes; behind it are 6 bytes"));
  }
}

// Cut anywhere, a file with a header is an error, and never a shorter text.
TEST_F(TokensTest, ATruncatedFileIsADataErrorWhereverItIsCut) {
  const std::string whole = Header(20240801, 7, 3) + Bytes<uint32_t>({1, 2, 3});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReasonOf(Read(whole.substr(0, size), TokenFormat::kLlmC).status()), "DATA_ERROR") << size;
  }
}

TEST_F(TokensTest, AMissingFileIsADataError) {
  const auto tokens = ReadTokens({root_, "none", "the text"}, TokenFormat::kAuto, 0, 100);
  EXPECT_EQ(ReasonOf(tokens.status()), "DATA_ERROR");
}

}  // namespace
}  // namespace ampd::data
