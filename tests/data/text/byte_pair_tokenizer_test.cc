#include "data/text/byte_pair_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/text/utf8.h"

namespace ampd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = Gpt2WordEnd(text, begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

TEST(Gpt2Words, LettersNumbersAndTheRest_AreApartAndTakeOneSpace) {
  EXPECT_THAT(Words("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(Words("in 2024, x2!?"), ElementsAre("in", " 2024", ",", " x", "2", "!?"));
  EXPECT_THAT(Words("größe 漢字 ½"), ElementsAre("größe", " 漢字", " ½"));
  EXPECT_THAT(Words("e\u0301a"), ElementsAre("e", "\u0301", "a")) << "a mark is no letter";
}

TEST(Gpt2Words, Endings_AreApartWhereAWordCouldBegin) {
  EXPECT_THAT(
      Words("I'm we'll you've they're he'd it's can't"),
      ElementsAre("I", "'m", " we", "'ll", " you", "'ve", " they", "'re", " he", "'d", " it", "'s", " can", "'t"));
  EXPECT_THAT(Words("CAN'T"), ElementsAre("CAN", "'", "T"));
  EXPECT_THAT(Words("say 'sure"), ElementsAre("say", " '", "sure"));
  EXPECT_THAT(Words("'sure"), ElementsAre("'s", "ure"));
  EXPECT_THAT(Words("!'s"), ElementsAre("!'", "s"));
  EXPECT_THAT(Words("a'"), ElementsAre("a", "'"));
}

TEST(Gpt2Words, WhiteSpace_LeavesItsLastToTheWordBehind) {
  EXPECT_THAT(Words("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(Words("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Words("a\n b"), ElementsAre("a", "\n", " b"));
  EXPECT_THAT(Words("a \n"), ElementsAre("a", " \n"));
  EXPECT_THAT(Words(" "), ElementsAre(" "));
  EXPECT_THAT(Words("  "), ElementsAre("  "));
  EXPECT_THAT(Words("a\u00a0\u3000b"), ElementsAre("a", "\u00a0", "\u3000", "b"));
}

// Returns the content of a vocab.json: first the tokens of all bytes, in GPT-2's order, then the tokens that `merges`
// make.
std::string VocabularyOf(const std::vector<std::string>& merges) {
  std::vector<std::string> entries;
  const auto add = [&entries](const std::string& token) {
    const std::string escaped = token == "\"" || token == "\\" ? "\\" + token : token;
    entries.push_back(absl::StrCat("\"", escaped, "\": ", entries.size()));
  };
  for (char32_t value = 33; value < 256 + 68; ++value) {
    if (value != 173 && (value < 127 || value > 160)) {
      std::string token;
      AppendUtf8(value, &token);
      add(token);
    }
  }
  for (const std::string& merge : merges) {
    add(absl::StrJoin(std::vector<std::string>{merge.substr(0, merge.find(' ')), merge.substr(merge.find(' ') + 1)},
                      ""));
  }
  return absl::StrCat("{", absl::StrJoin(entries, ", "), "}");
}

constexpr uint32_t kFirstMerge = 256;

std::unique_ptr<Tokenizer> WithMerges(const std::vector<std::string>& merges) {
  auto tokenizer =
      BytePairTokenizer::Make(VocabularyOf(merges), absl::StrCat("#version: 0.2\n", absl::StrJoin(merges, "\n"), "\n"));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

Tokens Encoded(Tokenizer& tokenizer, std::string_view text) {
  Tokens tokens;
  tokenizer.Encode(text, &tokens);
  return tokens;
}

uint32_t Byte(char byte) { return static_cast<uint32_t>(byte - 33); }

TEST(BytePairTokenizer, TheEarliestMerge_GoesFirstAndOfEqualOnesTheLeftmost) {
  const auto tokenizer = WithMerges({"b c", "a b", "a a", "bc d", "aa a"});
  EXPECT_EQ(tokenizer->vocabulary(), kFirstMerge + 5);
  EXPECT_THAT(Encoded(*tokenizer, "abc"), ElementsAre(Byte('a'), kFirstMerge));
  EXPECT_THAT(Encoded(*tokenizer, "abd"), ElementsAre(kFirstMerge + 1, Byte('d')));
  EXPECT_THAT(Encoded(*tokenizer, "abcd"), ElementsAre(Byte('a'), kFirstMerge + 3));
  EXPECT_THAT(Encoded(*tokenizer, "aaa"), ElementsAre(kFirstMerge + 4));
  EXPECT_THAT(Encoded(*tokenizer, "aaaaa"), ElementsAre(kFirstMerge + 2, kFirstMerge + 4));
}

TEST(BytePairTokenizer, Merges_DoNotReachOverWords) {
  const auto tokenizer = WithMerges({"a 1", "Ġ a"});
  EXPECT_THAT(Encoded(*tokenizer, "a1"), ElementsAre(Byte('a'), Byte('1')));
  EXPECT_THAT(Encoded(*tokenizer, "a a"), ElementsAre(Byte('a'), kFirstMerge + 1));
}

TEST(BytePairTokenizer, AWordThatWasSeenBefore_HasTheSameTokens) {
  const auto tokenizer = WithMerges({"b c", "a b"});
  const Tokens first = Encoded(*tokenizer, "abc");
  EXPECT_EQ(Encoded(*tokenizer, "abc"), first);
}

TEST(BytePairTokenizer, AWordOfAMegabyte_IsDoneInTime) {
  const auto tokenizer = WithMerges({"a a", "aa aa", "aaaa aaaa"});
  const Tokens tokens = Encoded(*tokenizer, std::string(1 << 20, 'a'));
  EXPECT_EQ(tokens, Tokens((1 << 20) / 8, kFirstMerge + 2));
}

TEST(BytePairTokenizer, FilesThatDoNotBelongTogether_AreRefused) {
  const auto error_of = [](const std::string& vocabulary, const std::string& merges) {
    const absl::Status status = BytePairTokenizer::Make(vocabulary, merges).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error_of("[1]", ""), "the vocabulary is no JSON object of tokens and numbers");
  EXPECT_EQ(error_of("{\"a\": 1", ""), "the vocabulary is no JSON object of tokens and numbers: it is no JSON");
  EXPECT_EQ(error_of(std::string("{\"a\": 1}\0{", 10), ""),
            "the vocabulary is no JSON object of tokens and numbers: it is no JSON from byte 9 on: that byte has the "
            "value 0");
  EXPECT_EQ(error_of("{\"a\": -1}", ""), "token \"a\" of the vocabulary has no number");
  EXPECT_EQ(error_of("{\"a\": 1, \"b\": 1}", ""), "two tokens of the vocabulary have the number 1");
  EXPECT_THAT(error_of("{\"a\": 1}", ""), HasSubstr("no token for byte 0, \"Ā\""));
  const std::string sound = VocabularyOf({"a b"});
  EXPECT_THAT(error_of(sound, "#version: 0.2\na c\n"), HasSubstr("line 2 of the merges, \"a c\", is no two tokens"));
  EXPECT_THAT(error_of(sound, "a b c\n"), HasSubstr("line 1 of the merges"));
  EXPECT_TRUE(BytePairTokenizer::Make(sound, "a b\r\n").ok());
  EXPECT_EQ(error_of("{\"a\": 1, \"b\": 2, \"a\": 3}", ""),
            "the vocabulary is no JSON object of tokens and numbers: it has the key \"a\" twice in an object");
  EXPECT_EQ(error_of(sound, "#version: 0.2\na b\na b\n"), "lines 2 and 3 of the merges are both \"a b\"");
}

}  // namespace
}  // namespace ampd::text
