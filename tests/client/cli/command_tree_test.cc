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

// Parses `words` with a command tree whose only command, `do it`, has these arguments. Returns the error, or "" if
// there is none.
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
  std::optional<absl::Duration> maybe_duration;
  std::optional<absl::Duration> no_duration;
  ByteCount size;
  std::string text;
  std::vector<std::string> rest;
  const std::vector<Argument> arguments = {
      {.name = "-f,--flag", .value = &flag, .help = ""},
      {.name = "--number", .value = &number, .text = "N", .help = ""},
      {.name = "--count", .value = &count, .text = "N", .help = ""},
      {.name = "--maybe-number", .value = &maybe_number, .text = "N", .help = ""},
      {.name = "--maybe-count", .value = &maybe_count, .text = "N", .help = ""},
      {.name = "--maybe-real", .value = &maybe_real, .text = "X", .help = ""},
      {.name = "--duration", .value = &duration, .text = "D", .help = ""},
      {.name = "--maybe-duration", .value = &maybe_duration, .text = "D", .help = ""},
      {.name = "--no-duration", .value = &no_duration, .text = "D", .help = ""},
      {.name = "--size", .value = &size, .text = "SIZE", .help = ""},
      {.name = "text", .value = &text, .text = "TEXT", .help = ""},
      {.name = "rest", .value = &rest, .text = "WORD...", .help = ""}};
  EXPECT_EQ(ParseWith(arguments,
                      "do it -f --number 1 --count 8589934592 --maybe-real 0.5 --duration 1d12h --maybe-duration 0s "
                      "--size 4GiB a b c"),
            "");
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(count, int64_t{1} << 33);
  EXPECT_EQ(maybe_number, std::nullopt);
  EXPECT_EQ(maybe_real, 0.5);
  EXPECT_EQ(duration, absl::Hours(36));
  EXPECT_EQ(maybe_duration, absl::ZeroDuration());
  EXPECT_EQ(no_duration, std::nullopt);
  EXPECT_EQ(size.bytes, int64_t{4} << 30);
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
  ByteCount size;
  std::optional<int> maybe;
  std::optional<double> real;
  const std::vector<Argument> others = {{.name = "-s,--size", .value = &size, .text = "SIZE", .help = ""},
                                        {.name = "--maybe", .value = &maybe, .text = "N", .help = ""},
                                        {.name = "--real", .value = &real, .text = "X", .help = ""},
                                        {.name = "--count", .value = &number, .text = "N", .help = ""}};
  EXPECT_THAT(ParseWith(others, "do it -s 4G"), HasSubstr("--size: '4G' is not a number of bytes"));
  EXPECT_THAT(ParseWith(others, "do it --maybe x"), HasSubstr("--maybe: 'x' is not a whole number"));
  EXPECT_THAT(ParseWith(others, "do it --real x"), HasSubstr("--real: 'x' is not a number"));
  EXPECT_THAT(ParseWith(others, "do it --count 9999999999"), HasSubstr("is too large; the maximum is 2147483647"));
  EXPECT_THAT(ParseWith(others, "do it --count=-9999999999"), HasSubstr("-2147483648 to 2147483647"));
}

TEST(CommandTree, ATextThatIsNotUtf8_IsRefusedUnlessItIsAPath) {
  std::string name;
  std::string path;
  const std::vector<Argument> arguments = {
      {.name = "--name", .value = &name, .text = "NAME", .help = ""},
      {.name = "--path", .value = &path, .text = "FILE", .help = "", .is_path = true}};
  EXPECT_THAT(ParseWith(arguments, "do it --name caf\xe9"),
              HasSubstr("--name: the byte 0xe9 at offset 3 is not UTF-8"));
  EXPECT_EQ(ParseWith(arguments, "do it --path caf\xe9"), "");
  EXPECT_EQ(path, "caf\xe9");
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
