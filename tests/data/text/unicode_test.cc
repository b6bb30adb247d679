#include "data/text/unicode.h"

#include <gtest/gtest.h>

#include <string>

#include "data/text/utf8.h"

namespace ampd::text {
namespace {

std::string Utf8(char32_t value) {
  std::string text;
  AppendUtf8(value, &text);
  return text;
}

TEST(Unicode, Classes_AreThoseOfTheStandard) {
  EXPECT_TRUE(IsLetter(U'ß') && IsLetter(U'漢') && IsLetter(U'ʰ') && !IsLetter(U'1') && !IsLetter(0x0301));
  EXPECT_TRUE(IsNumber(U'7') && IsNumber(U'½') && IsNumber(U'Ⅷ') && IsNumber(U'٣') && !IsNumber(U'a'));
  EXPECT_TRUE(IsSpace(U' ') && IsSpace(0x85) && IsSpace(0xA0) && IsSpace(0x3000) && !IsSpace(0x200B));
  EXPECT_FALSE(IsSpace(0x1C)) << "Python's str.isspace differs";
  EXPECT_TRUE(IsControl(0x7F) && IsControl(0xAD) && IsControl(0xE000) && IsControl(0x378) && !IsControl(U'a'));
  EXPECT_TRUE(IsPunctuation(U'。') && IsPunctuation(U'«') && !IsPunctuation(U'$') && !IsPunctuation(U'€'));
  EXPECT_TRUE(IsAccent(0x0301) && !IsAccent(U'´'));
}

TEST(Unicode, Decomposition_IsCanonicalAndOrdersMarks) {
  EXPECT_EQ(Decomposed("plain"), "plain");
  EXPECT_EQ(Decomposed(Utf8(U'ế')), "e" + Utf8(0x302) + Utf8(0x301));
  EXPECT_EQ(Decomposed("e" + Utf8(0x301) + Utf8(0x323)), "e" + Utf8(0x323) + Utf8(0x301));
  EXPECT_EQ(Decomposed(Utf8(U'각')), Utf8(0x1100) + Utf8(0x1161) + Utf8(0x11A8));
  EXPECT_EQ(Decomposed(Utf8(U'ﬁ')), Utf8(U'ﬁ')) << "a compatibility ligature stays";
  EXPECT_TRUE(Lower(U'Ä') == U'ä');
  EXPECT_TRUE(Lower(U'Σ') == U'σ');
}

}  // namespace
}  // namespace ampd::text
