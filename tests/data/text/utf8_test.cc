#include "data/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace ampd::text {
namespace {

std::string Bytes(char32_t value) {
  std::string text;
  AppendUtf8(value, &text);
  return text;
}

TEST(Utf8, EveryCodePoint_IsReadAsItWasWritten) {
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xD800 && value < 0xE000) {
      continue;
    }
    const std::string bytes = Bytes(value);
    const CodePoint read = CodePointAt(bytes + "x", 0);
    ASSERT_TRUE(read.value == value) << bytes;
    ASSERT_EQ(read.num_bytes, bytes.size());
    if (bytes.size() > 1) {
      ASSERT_EQ(FindInvalidUtf8(bytes.substr(0, bytes.size() - 1)), 0u) << bytes << " cut off";
    }
  }
}

TEST(Utf8, BytesThatAreNotUtf8_AreFoundWhereTheyBegin) {
  EXPECT_EQ(FindInvalidUtf8("plain \xc3\xa9"), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("ab\xff"), 2u);
  EXPECT_EQ(FindInvalidUtf8("a\xc0\xaf"), 1u) << "longer than it need be";
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0u) << "a surrogate";
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u) << "beyond the last code point";
  EXPECT_EQ(FindInvalidUtf8("\xc3\xa9\xa9"), 2u) << "goes on with nothing before";
}

TEST(Utf8, EveryByteThatIsNone_IsReplacedAlone) {
  const std::string replacement = "\xef\xbf\xbd";
  EXPECT_EQ(WithReplacements(""), "");
  EXPECT_EQ(WithReplacements("plain \xc3\xa9\n"), "plain \xc3\xa9\n");
  EXPECT_EQ(WithReplacements("a\xff"
                             "b"),
            "a" + replacement + "b");
  EXPECT_EQ(WithReplacements("\xe6\xbc"), replacement + replacement) << "cut off";
  EXPECT_EQ(WithReplacements("\xe6\xbc\xa2\xa2z"), "\xe6\xbc\xa2" + replacement + "z");
  EXPECT_EQ(WithReplacements("\xed\xa0\x80"), replacement + replacement + replacement) << "a surrogate";
  EXPECT_EQ(WithReplacements(std::string(1, '\0')), std::string(1, '\0'));
}

}  // namespace
}  // namespace ampd::text
