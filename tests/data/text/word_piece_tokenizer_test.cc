#include "data/text/word_piece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"

namespace ampd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kVocabulary = {"[UNK]", "un", "##aff", "##able", "cafe", "café", "Café", "!",
                                              "##!",   "a",  "##a",   "b",      "中",   "国",   "$",    "σ"};

std::vector<std::string> Pieces(const std::string& text, bool cased = false) {
  const auto tokenizer = WordPieceTokenizer::Make(absl::StrJoin(kVocabulary, "\n") + "\n", cased);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  Tokens tokens;
  (*tokenizer)->Encode(text, &tokens);
  std::vector<std::string> pieces;
  for (const uint32_t token : tokens) {
    pieces.push_back(kVocabulary.at(token));
  }
  return pieces;
}

TEST(WordPieceTokenizer, AWord_IsCutIntoItsLongestPieces) {
  EXPECT_THAT(Pieces("unaffable"), ElementsAre("un", "##aff", "##able"));
  EXPECT_THAT(Pieces("aaa ab"), ElementsAre("a", "##a", "##a", "[UNK]"));
}

TEST(WordPieceTokenizer, CapitalsAndAccents_GoUnlessTheVocabularyIsCased) {
  EXPECT_THAT(Pieces("CAFÉ Cafe\u0301"), ElementsAre("cafe", "cafe"));
  EXPECT_THAT(Pieces("Café café CAFÉ", true), ElementsAre("Café", "café", "[UNK]"));
  EXPECT_THAT(Pieces("Σ"), ElementsAre("σ"));
}

TEST(WordPieceTokenizer, PunctuationIdeographsAndAsciisSymbols_StandAlone) {
  EXPECT_THAT(Pieces("a!!b$"), ElementsAre("a", "!", "!", "b", "$"));
  EXPECT_THAT(Pieces("a中国b"), ElementsAre("a", "中", "国", "b"));
}

TEST(WordPieceTokenizer, ControlCharacters_GoAndWhiteSpaceOfAnyKindParts) {
  EXPECT_THAT(Pieces(std::string("a\0a\x01\u00ad\u200d\ufffda", 13)), ElementsAre("a", "##a", "##a"));
  EXPECT_THAT(Pieces("a\tb\r\na\u00a0b\u3000a\u2028b"), ElementsAre("a", "b", "a", "b", "a", "b"));
  EXPECT_THAT(Pieces(" \u0301 "), ElementsAre());
}

TEST(WordPieceTokenizer, AWordOfMoreThan100Characters_IsUnknown) {
  EXPECT_EQ(Pieces(std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(Pieces(std::string(101, 'a')), ElementsAre("[UNK]"));
}

TEST(WordPieceTokenizer, AVocabularyThatIsNone_IsRefused) {
  const auto error_of = [](const std::string& vocabulary) {
    const absl::Status status = WordPieceTokenizer::Make(vocabulary, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error_of("a\nb\n"), "the vocabulary has no token [UNK]");
  EXPECT_EQ(error_of("a\n[UNK]\na\n"), "lines 1 and 3 of the vocabulary are both \"a\"");
  const auto sound = WordPieceTokenizer::Make("[UNK]\r\na\r\n", false);
  EXPECT_EQ((*sound)->Find("a"), 1u);
  EXPECT_EQ((*sound)->Find("b"), std::nullopt);
}

}  // namespace
}  // namespace ampd::text
