#include "base/yaml/yaml_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr YamlKind kLists = {
    .file = "a list", .files = "lists", .content = "one list", .about_archives = "; a list is a text"};
constexpr YamlKind kPlainLists = {.file = "a list",
                                  .files = "lists",
                                  .content = "one list",
                                  .about_archives = "; a list is a text",
                                  .is_plain = true};

// The first problem of the text, with its position; empty if there is none.
std::string ProblemOf(const std::string& text, const YamlKind& kind) {
  std::vector<Problem> problems;
  ParseYaml(text, "f", kind, &problems);
  return problems.empty() ? "" : absl::StrCat(problems[0].mark.ToString(), ": ", problems[0].message);
}

TEST(YamlTree, MessagesHaveTheNamesOfTheKindOfFile) {
  EXPECT_THAT(ProblemOf("a: 1\n---\nb: 2\n", kLists), HasSubstr("; a list holds one list"));
  EXPECT_THAT(ProblemOf("PK\x03\x04", kLists), HasSubstr("the file is a ZIP archive; a list is a text"));
  EXPECT_THAT(ProblemOf("[section]\nname = value\n", kLists), HasSubstr("TOML or INI; a list is YAML"));
  EXPECT_THAT(ProblemOf(std::string(kMaxYamlBytes + 1, 'a'), kLists), HasSubstr("; a list has at most"));
  EXPECT_THAT(ProblemOf("a: !<\n", kLists), HasSubstr("a tag, which lists do not have"));
}

TEST(YamlTree, APlainKindHasNoAnchorsAliasesAndTags) {
  EXPECT_EQ(ProblemOf("a: &x 1\nb: *x\n", kLists), "");
  EXPECT_EQ(ProblemOf("a: !!str 1\n", kLists), "");
  EXPECT_THAT(ProblemOf("a: &x 1\n", kPlainLists), StartsWith("f:1:4: a value that begins with '&' has an anchor"));
  EXPECT_THAT(ProblemOf("a: &x [1]\n", kPlainLists), HasSubstr("has an anchor, which lists do not have"));
  EXPECT_THAT(ProblemOf("a: 1\nb: *x\n", kPlainLists), StartsWith("f:2:4: "));
  EXPECT_THAT(ProblemOf("a: 1\nb: !!str 2\n", kPlainLists), StartsWith("f:2:4: the tag "));
  EXPECT_EQ(ProblemOf("a: '&x'\nb: \"*x\"\nc: '!x'\n", kPlainLists), "");
}

TEST(YamlTree, ATextOfCommentsIsEmpty) {
  EXPECT_TRUE(IsEmptyYaml(""));
  EXPECT_TRUE(IsEmptyYaml("\n  # a: 1\n\t\n"));
  EXPECT_FALSE(IsEmptyYaml("# a\na: 1\n"));
}

}  // namespace
}  // namespace ampd
