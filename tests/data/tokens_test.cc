#include "data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"

namespace ampd::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The content of a file that holds these numbers.
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

  absl::StatusOr<TokenFile> Read(const std::string& content, TokenFormat format, int64_t limit = 0,
                                 int64_t vocabulary = 100) {
    std::ofstream(root_ / "text", std::ios::binary) << content;
    return ReadTokens({root_, "text", "the text"}, format, limit, vocabulary);
  }

  template <typename Token = uint16_t>
  std::vector<Token> Good(const std::string& content, TokenFormat format, int64_t limit = 0) {
    const auto tokens = Read(content, format, limit);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() && std::holds_alternative<std::vector<Token>>(tokens->tokens)
               ? std::get<std::vector<Token>>(tokens->tokens)
               : std::vector<Token>();
  }
  // Reads a token file and returns its error as "DATA_ERROR: <message>".
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

TEST_F(TokensTest, LlmCsFilesAreKnownByTheirHeader) {
  EXPECT_THAT(Good(Header(20240520, 1, 1) + Bytes<uint16_t>({5}), TokenFormat::kAuto), ElementsAre(5));
  EXPECT_THAT(Good<uint32_t>(Header(20240801, 7, 1) + Bytes<uint32_t>({5}), TokenFormat::kAuto), ElementsAre(5));
}

// A random text of `size` tokens, each drawn with equal probability from those below `vocabulary`.
template <typename Token>
std::vector<Token> Text(size_t size, uint64_t vocabulary) {
  std::mt19937_64 random(size + vocabulary);
  std::vector<Token> tokens(size);
  std::generate(tokens.begin(), tokens.end(), [&] { return static_cast<Token>(random() % vocabulary); });
  return tokens;
}

// The file has no header. Whatever the size of the vocabulary, the reader finds from the numbers how wide the tokens
// are.
TEST_F(TokensTest, WithoutAHeaderTheWidthIsToldByTheNumbers) {
  for (const uint64_t vocabulary : {8, 17, 65, 256, 50'257, 65'536}) {
    for (const size_t size : {300, 301, 40'000}) {
      const auto text = Text<uint16_t>(size, vocabulary);
      const auto read = Read(Bytes(text), TokenFormat::kAuto, 0, 65'536);
      ASSERT_TRUE(read.ok()) << vocabulary << ", " << size << ": " << read.status();
      ASSERT_TRUE(std::holds_alternative<std::vector<uint16_t>>(read->tokens)) << vocabulary << ", " << size;
      EXPECT_EQ(std::get<std::vector<uint16_t>>(read->tokens), text);
      EXPECT_THAT(read->note, HasSubstr("read as tokens of 16 bits without a header: "));
    }
  }
  for (const uint64_t vocabulary : {8, 65, 256, 50'257, 65'536, 128'256, 1 << 20}) {
    for (const size_t size : {64, 301, 40'000}) {
      const auto text = Text<uint32_t>(size, vocabulary);
      const auto read = Read(Bytes(text), TokenFormat::kAuto, 0, 1 << 20);
      ASSERT_TRUE(read.ok()) << vocabulary << ", " << size << ": " << read.status();
      ASSERT_TRUE(std::holds_alternative<std::vector<uint32_t>>(read->tokens)) << vocabulary << ", " << size;
      EXPECT_EQ(std::get<std::vector<uint32_t>>(read->tokens), text);
      EXPECT_THAT(read->note, HasSubstr("read as tokens of 32 bits without a header: "));
    }
  }
}

// A limit makes the reader return only the first tokens. The reader still uses the whole file to find how wide the
// tokens are.
TEST_F(TokensTest, WithALimitTheWidthIsToldByTheWholeFile) {
  EXPECT_THAT(Good<uint32_t>(Bytes(Text<uint32_t>(5000, 100)), TokenFormat::kAuto, 3), testing::SizeIs(3));
}

TEST_F(TokensTest, NumbersThatLeaveTheWidthOpenAreRefusedUntilItIsSaid) {
  std::vector<uint32_t> with_labels = Text<uint32_t>(1000, 50'000);
  with_labels[500] = static_cast<uint32_t>(-100);
  const std::pair<std::string, const char*> cases[] = {
      {Bytes<uint32_t>({1, 2, 3}), "3 numbers of 32 bits are too few to tell them from twice as many of 16"},
      {std::string(4096, '\0'), "all of it is 0"},
      {Bytes(Text<uint64_t>(1000, 50'000)), "every second number of 32 bits is 0, as in numbers of 64 bits"},
      {Bytes(with_labels), "nearly every second 16 bits are at most 15"},
  };
  for (const auto& [content, why] : cases) {
    const std::string error = Bad(content, TokenFormat::kAuto);
    EXPECT_THAT(
        error,
        HasSubstr(
            "DATA_ERROR: the text: its content does not tell that it is a file of tokens, or how wide they are: "));
    EXPECT_THAT(error, HasSubstr(why));
    EXPECT_THAT(error, HasSubstr("set the format of tokens to LLM_C, UINT16 or UINT32"));
    EXPECT_TRUE(Read(content, TokenFormat::kUint16, 0, 1 << 16).ok()) << why;
    EXPECT_TRUE(Read(content, TokenFormat::kUint32, 0, int64_t{1} << 32).ok()) << why;
  }
}

// Signed numbers are the labels of a text, in which a negative number marks a position without a label.
TEST_F(TokensTest, SignedNumbersAreRefusedHoweverManyAreNegative) {
  for (const uint64_t vocabulary : {8, 65, 50'257}) {
    for (const size_t every : {1000, 10, 5, 2}) {  // Every so many numbers, one is negative.
      for (const int negative : {-1, -100}) {
        std::vector<int32_t> of_32 = Text<int32_t>(4000, vocabulary);
        std::vector<int64_t> of_64 = Text<int64_t>(4000, vocabulary);
        for (size_t i = 0; i < of_32.size(); i += every) {
          of_32[i] = negative;
          of_64[i] = negative;
        }
        const std::string what = absl::StrCat(vocabulary, ", every ", every, ", ", negative);
        EXPECT_THAT(Bad(Bytes(of_32), TokenFormat::kAuto),
                    AllOf(HasSubstr("nearly every second 16 bits are at most 15 or, as in negative numbers, 65535"),
                          HasSubstr("set the format of tokens to LLM_C, UINT16 or UINT32")))
            << what;
        EXPECT_THAT(Bad(Bytes(of_64), TokenFormat::kAuto),
                    HasSubstr("every second number of 32 bits is 0 or -1, as in numbers of 64 bits"))
            << what;
      }
    }
  }
  EXPECT_THAT(Bad(Bytes<int32_t>({5, -1, 7, -100}), TokenFormat::kAuto), HasSubstr("4 numbers of 32 bits are too few"));
}

// The sizes are whole numbers of 16-bit tokens.
TEST_F(TokensTest, WideTokensThatAreCutOffAreNotReadAsNarrowOnes) {
  for (const uint64_t vocabulary : {65, 50'257, 128'256}) {
    const std::string whole = Bytes(Text<uint32_t>(4000, vocabulary));
    ASSERT_EQ(whole.size(), 16'000);
    const std::string error = Bad(whole.substr(0, 15'998), TokenFormat::kAuto);
    EXPECT_THAT(error,
                HasSubstr("has 15998 bytes, no whole number of tokens of 4 bytes, but every second 16 bits are "));
    EXPECT_THAT(error, HasSubstr("; it may be cut off; set the format of tokens to LLM_C, UINT16 or UINT32"));
    EXPECT_THAT(Bad(whole.substr(0, 15'998), TokenFormat::kUint32), HasSubstr("no whole number of tokens of 4"));
  }
  for (const size_t size : {31'994, 31'998}) {
    EXPECT_THAT(Bad(Bytes(Text<uint64_t>(4000, 50'257)).substr(0, size), TokenFormat::kAuto),
                AllOf(HasSubstr("as in numbers of 64 bits"), HasSubstr("it may be cut off")));
  }
  std::vector<uint32_t> with_labels = Text<uint32_t>(1000, 50'000);
  with_labels[500] = static_cast<uint32_t>(-100);
  EXPECT_THAT(Bad(Bytes(with_labels).substr(0, 3998), TokenFormat::kAuto), HasSubstr("it may be cut off"));
}

TEST_F(TokensTest, AFormatThatTheNumbersSpeakAgainstIsTakenWithANote) {
  const auto narrow = Read(Bytes(Text<uint32_t>(1000, 50'000)), TokenFormat::kUint16, 0, 1 << 16);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_THAT(narrow->note,
              HasSubstr("read as tokens of 16 bits as the format of tokens says, and looks like tokens of 32"));
  EXPECT_EQ(Read(Bytes(Text<uint16_t>(1000, 50'000)), TokenFormat::kUint16, 0, 1 << 16)->note, "");
}

// A file that was detected as 16-bit tokens is ambiguous if the vocabulary exceeds 2^16, so the format must be
// declared.
TEST_F(TokensTest, NarrowTokensOfALargeVocabularyMustBeSaid) {
  const std::string narrow = Bytes(Text<uint16_t>(1000, 50'000));
  EXPECT_TRUE(Read(narrow, TokenFormat::kAuto, 0, 1 << 16).ok());
  const absl::Status status = Read(narrow, TokenFormat::kAuto, 0, (1 << 16) + 1).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR");
  EXPECT_THAT(std::string(status.message()), HasSubstr("a vocabulary of 65537 needs 32: set the format of tokens"));
  EXPECT_TRUE(Read(narrow, TokenFormat::kUint16, 0, (1 << 16) + 1).ok());
}

TEST_F(TokensTest, ATextThatBeginsLikeGzipIsReadAsItIs) {
  const auto tokens = Read(Bytes<uint16_t>({0x8b1f, 8, 8}), TokenFormat::kAuto, 0, 65536);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(std::get<std::vector<uint16_t>>(tokens->tokens), ElementsAre(0x8b1f, 8, 8));
}

// Tokens whose first byte, or ninth, is an opening brace.
TEST_F(TokensTest, ATextThatBeginsLikeAnotherFormatIsReadAsItIs) {
  const auto is_read = [this](const auto& text) {
    const auto read = Read(Bytes(text), TokenFormat::kAuto, 0, 1 << 16);
    return read.ok() ? "" : std::string(read.status().message());
  };
  for (const uint32_t vocabulary : {256, 50'257}) {
    auto narrow = Text<uint16_t>(1001, vocabulary);
    auto wide = Text<uint32_t>(1001, vocabulary);
    for (const uint16_t token : {0x7B, 0x227B, 0x7D7B, 0x207B, 0xC37B}) {
      for (const size_t place : {0, 4}) {
        auto braced = narrow;
        braced[place] = token;
        EXPECT_EQ(is_read(braced), "") << "vocabulary " << vocabulary << ", token " << token << " at " << place;
      }
      for (const size_t place : {0, 2}) {
        auto braced = wide;
        braced[place] = token;
        EXPECT_EQ(is_read(braced), "") << "vocabulary " << vocabulary << ", token " << token << " at " << place;
      }
    }
    wide[0] = 300;  // With the next token, the length of a header of safetensors that fits the file.
    wide[1] = 0;
    wide[2] = '{';
    EXPECT_EQ(is_read(wide), "");
  }
}

// The first tokens are 0 and 264: the four bytes with which an IDX file of labels begins.
TEST_F(TokensTest, AFormatThatIsNotCertainIsNamedWithTheFieldThatSettlesIt) {
  auto text = Text<uint16_t>(1000, 50'257);
  text[0] = 0;
  text[1] = 264;
  EXPECT_EQ(Bad(Bytes(text), TokenFormat::kAuto),
            "DATA_ERROR: the text: by its content it is a file of IDX; where it is one of tokens, set the format of "
            "tokens to UINT16 or UINT32");
  EXPECT_TRUE(Read(Bytes(text), TokenFormat::kUint16, 0, 1 << 16).ok());
}

// A file whose content is certainly in another format is refused, whatever token format the job declares.
TEST_F(TokensTest, AFileOfAnotherFormatIsRefusedByName) {
  const std::string numbers = Bytes(Text<uint16_t>(1000, 50'000));
  std::string tar(512, '\0');
  tar.replace(257, 6, "ustar\0", 6);
  std::string utf16("\xff\xfe");
  std::string words;
  for (int i = 0; i < 100; ++i) {
    words += "some words; ";
    utf16 += std::string("a\0 \0", 4);
  }
  const std::pair<std::string, const char*> cases[] = {
      {Npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1000,), }", numbers), "a NumPy array (.npy)"},
      {"PK\x03\x04" + numbers, "a ZIP archive"},
      {Gzip(numbers), "compressed by gzip"},
      {std::string("\0\0\x08\x01\0\0\x07\xd0", 8) + numbers, "an IDX file"},
      {std::string("\x18\0\0\0\0\0\0\0{\"__metadata__\":{}}      ", 32) + numbers, "a safetensors file"},
      {"\x89PNG\r\n\x1a\n" + numbers, "a PNG picture"},
      {"PAR1" + numbers + "PAR1", "a Parquet file"},
      {"ARROW1\0\0" + numbers, "an Arrow file"},
      {"\x89HDF\r\n\x1a\n" + numbers, "an HDF5 file"},
      {std::string("\x28\xb5\x2f\xfd") + numbers, "compressed by zstd"},
      {std::string("\xfd\x37zXZ\0", 6) + numbers, "compressed by xz"},
      {"BZh91AY&SY" + numbers, "compressed by bzip2"},
      {tar + numbers, "a tar archive"},
      {utf16, "text in UTF-16"},
      {words, "text"},
      {"\xef\xbb\xbf" + words, "text"},
      {"[\"" + words + "\"]", "JSON"},
  };
  for (const auto& [content, name] : cases) {
    EXPECT_THAT(Bad(content, TokenFormat::kAuto), HasSubstr("DATA_ERROR: the text: ")) << name;
    EXPECT_THAT(Bad(content.substr(0, content.size() / 4 * 4), TokenFormat::kUint16),
                AllOf(HasSubstr(absl::StrCat("DATA_ERROR: the text: it is ", name)),
                      HasSubstr(", not tokens and nothing else")));
    EXPECT_THAT(Bad(content.substr(0, content.size() / 4 * 4), TokenFormat::kUint32), HasSubstr(name));
  }
  const std::string with_header = Header(20240520, 1, 1000) + numbers;
  EXPECT_THAT(Bad(with_header, TokenFormat::kUint16), HasSubstr("llm.c's token file"));
}

TEST_F(TokensTest, BehindTheLimitNothingIsLookedAt) {
  EXPECT_THAT(Good(Bytes<uint16_t>({1, 2, 9999}), TokenFormat::kUint16, 2), ElementsAre(1, 2));
  EXPECT_THAT(Good(Bytes<uint16_t>({1, 2}), TokenFormat::kUint16, 5), ElementsAre(1, 2));
}

// The file is larger than the reader's buffer.
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
  EXPECT_EQ(Bad("", TokenFormat::kUint16), "DATA_ERROR: the text: it has no token");
  EXPECT_EQ(Bad(Header(20240520, 1, 0), TokenFormat::kAuto), "DATA_ERROR: the text: it has no token");
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

// A file with a header that is truncated at any byte gives an error and never a shorter text.
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
