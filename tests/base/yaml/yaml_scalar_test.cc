#include "base/yaml/yaml_scalar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/yaml/yaml_tree.h"

namespace ampd {
namespace {

constexpr YamlKind kKind = {.file = "a list", .files = "lists", .content = "one list", .about_archives = ""};

TEST(YamlScalar, QuotesWhatSomeReaderWouldTakeForAnotherType) {
  EXPECT_EQ(YamlScalar("/var/lib/ampd"), "\"/var/lib/ampd\"");
  EXPECT_EQ(YamlScalar("cpu"), "cpu");
  for (const char* text : {"no", "true", "null", "~", "1e3", "0x10", "1:20", "", "nan", "- a", "a: b", "#", "[a"}) {
    EXPECT_EQ(YamlScalar(text), absl::StrCat("\"", text, "\""));
  }
}

TEST(YamlScalar, EveryTextIsReadBack) {
  for (const std::string text : {"a\nb",
                                 "\"",
                                 "\\",
                                 "'",
                                 "\t",
                                 "\x1b[2J",
                                 "caf\u00e9",
                                 "\u202e",
                                 "\U000e0041",
                                 "\u00a0",
                                 "a # b",
                                 "@x",
                                 "%",
                                 "`",
                                 "{a}",
                                 "*:jobs=5",
                                 "NAME@nlp,vision=/data",
                                 "=",
                                 "<<",
                                 " edge "}) {
    std::vector<Problem> problems;
    const auto root = ParseYaml(absl::StrCat("key: ", YamlScalar(text), "\n"), "test", kKind, &problems);
    ASSERT_TRUE(root.has_value() && problems.empty()) << text;
    EXPECT_EQ(root->entries.at(0).value.text, text);
  }
}

}  // namespace
}  // namespace ampd
