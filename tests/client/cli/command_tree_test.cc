#include "client/cli/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/checks.h"

namespace ampd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int Succeed(Session* /*session*/) { return 0; }

// Makes a tree with one command, `do it`, which has these arguments, and parses the words with it. Returns the error;
// empty if there is none.
std::string ParseWith(const std::vector<Argument>& arguments, const std::string& words) {
  CLI::App root;
  CommandTree tree(&root);
  tree.AddCommand({.name = "do",
                   .help = "A group",
                   .commands = {{.name = "it", .help = "A command", .arguments = arguments, .run = Succeed}}});
  try {
    root.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  EXPECT_EQ(tree.CommandOf(tree.selected()).name, "it");
  return "";
}

TEST(CommandTree, AnArgumentOfEachType_IsParsedIntoItsVariable) {
  bool flag = false;
  int number = 0;
  int64_t count = 0;
  std::optional<int> maybe_number;
  std::optional<int64_t> maybe_count;
  std::optional<double> maybe_real;
  absl::Duration duration;
  std::string text;
  std::vector<std::string> rest;
  const std::vector<Argument> arguments = {{.name = "-f,--flag", .value = &flag, .help = ""},
                                           {.name = "--number", .value = &number, .text = "N", .help = ""},
                                           {.name = "--count", .value = &count, .text = "N", .help = ""},
                                           {.name = "--maybe-number", .value = &maybe_number, .text = "N", .help = ""},
                                           {.name = "--maybe-count", .value = &maybe_count, .text = "N", .help = ""},
                                           {.name = "--maybe-real", .value = &maybe_real, .text = "X", .help = ""},
                                           {.name = "--duration", .value = &duration, .text = "D", .help = ""},
                                           {.name = "text", .value = &text, .text = "TEXT", .help = ""},
                                           {.name = "rest", .value = &rest, .text = "WORD...", .help = ""}};
  EXPECT_EQ(ParseWith(arguments, "do it -f --number 1 --count 8589934592 --maybe-real 0.5 --duration 1h30m a b c"), "");
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(count, int64_t{1} << 33);
  EXPECT_EQ(maybe_number, std::nullopt);
  EXPECT_EQ(maybe_real, 0.5);
  EXPECT_EQ(duration, absl::Minutes(90));
  EXPECT_EQ(text, "a");
  EXPECT_THAT(rest, ElementsAre("b", "c"));
  EXPECT_EQ(ParseWith(arguments, "do it --maybe-number 0 --maybe-count 2"), "");
  EXPECT_EQ(maybe_number, 0);
  EXPECT_EQ(maybe_count, 2);
}

TEST(CommandTree, AListOption_TakesOneWordEachTime) {
  std::vector<std::string> list;
  std::string word;
  EXPECT_EQ(ParseWith({{.name = "--add", .value = &list, .text = "X", .help = ""},
                       {.name = "word", .value = &word, .text = "WORD", .help = ""}},
                      "do it --add a --add b c"),
            "");
  EXPECT_THAT(list, ElementsAre("a", "b"));
  EXPECT_EQ(word, "c");
}

TEST(CommandTree, AWrongValue_IsAnErrorThatNamesTheArgument) {
  absl::Duration duration;
  int number = 7;
  const std::vector<Argument> arguments = {
      {.name = "--duration", .value = &duration, .text = "D", .help = ""},
      {.name = "--number", .value = &number, .text = "N", .help = "", .check = CheckPositiveCount}};
  EXPECT_THAT(ParseWith(arguments, "do it --duration soon"), HasSubstr("--duration: 'soon' is not a duration"));
  EXPECT_THAT(ParseWith(arguments, "do it --number 0"), HasSubstr("--number: '0'"));
  EXPECT_EQ(number, 7);
}

TEST(CommandTree, AValueThatIsNoChoice_IsAnErrorWithTheChoices) {
  std::string kind = "gpu";
  const std::vector<Argument> arguments = {
      {.name = "--kind", .value = &kind, .text = "KIND", .help = "", .choices = {"gpu", "cpu"}}};
  EXPECT_THAT(ParseWith(arguments, "do it --kind tpu"), HasSubstr("--kind: 'tpu' is not one of gpu, cpu"));
  EXPECT_EQ(ParseWith(arguments, "do it --kind cpu"), "");
  EXPECT_EQ(kind, "cpu");
}

TEST(CommandTree, ARequiredArgument_MustBeThere) {
  std::string id;
  const std::vector<Argument> arguments = {{.name = "id", .value = &id, .text = "ID", .help = "", .required = true}};
  EXPECT_THAT(ParseWith(arguments, "do it"), HasSubstr("id is required"));
  EXPECT_EQ(ParseWith(arguments, "do it x"), "");
}

TEST(CommandTree, AGroup_NeedsACommand) { EXPECT_THAT(ParseWith({}, "do"), HasSubstr("subcommand is required")); }

TEST(CommandTree, FormatsOf_AreTheCommandsOwnAndAllOfAGroup) {
  CLI::App root;
  CommandTree tree(&root);
  tree.AddCommand({.name = "do", .help = "A group", .commands = {{.name = "it", .help = "A command", .run = Succeed}}});
  const CLI::App* const group = root.get_subcommand("do");
  EXPECT_EQ(tree.FormatsOf(group), AllFormats());
  EXPECT_THAT(tree.FormatsOf(group->get_subcommand("it")), ElementsAre(OutputFormat::kTable));
}

}  // namespace
}  // namespace ampd::client
