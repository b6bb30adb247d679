#include "base/flags/flag_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/base/flags/config_folder.h"

namespace ampd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A program with at least one flag of each kind.
struct Program {
  std::string text, path, keys, address = "unix:/run/s", level = "info";
  bool is_on = false;
  int number = 7;
  absl::Duration seconds = absl::Seconds(20), lease = absl::Seconds(10), age = absl::Hours(1);
  int64_t size = 256 << 20;
  std::optional<int64_t> limit;
  std::vector<std::string> names, roots;

  FlagSet::Take AppendTo(std::vector<std::string>* values) const {
    return [values](const std::string& value) {
      values->push_back(value);
      return value == "bad" ? absl::InvalidArgumentError("'bad' is no name") : absl::OkStatus();
    };
  }

  absl::StatusOr<ParsedFlags> Parse(std::vector<std::string> words) {
    FlagSet flags("tool", "A tool.");
    flags.AddText({.name = "--text", .type = "TEXT", .help = "A text"}, &text);
    flags.AddText({.name = "--path", .type = "PATH", .help = "A path", .path = PathForm::kPath}, &path);
    flags.AddText({.name = "--keys", .type = "FILE|URL", .help = "Keys", .path = PathForm::kPathOrUrl}, &keys);
    flags.AddText({.name = "--address", .type = "ADDRESS", .help = "Where", .path = PathForm::kUnixAddress}, &address);
    flags.AddChoice({.name = "--level", .type = "LEVEL", .help = "A level"}, {"debug", "info"}, &level);
    flags.AddSwitch({.name = "--on", .help = "A switch"}, &is_on);
    flags.AddNumber({.name = "--number", .type = "N", .help = "A number"}, 0, 9, &number);
    flags.AddSeconds({.name = "--seconds", .type = "SECONDS", .help = "Seconds"}, &seconds);
    flags.AddDuration({.name = "--lease", .type = "DURATION", .help = "A duration"}, absl::Seconds(1), &lease);
    flags.AddAge({.name = "--age", .type = "DURATION", .help = "An age"}, &age);
    flags.AddSize({.name = "--size", .type = "SIZE", .help = "A size"}, &size);
    flags.AddSize({.name = "--limit", .type = "SIZE", .help = "A limit", .needs = "--text"}, &limit);
    flags.AddRepeated({.name = "--name", .type = "NAME", .help = "A name"}, AppendTo(&names));
    flags.AddRepeated({.name = "--root", .type = "NAME=PATH", .help = "A root", .path = PathForm::kNamed},
                      AppendTo(&roots));
    words.insert(words.begin(), "tool");
    std::vector<const char*> argv;
    for (const std::string& word : words) {
      argv.push_back(word.c_str());
    }
    return flags.Parse(static_cast<int>(argv.size()), argv.data());
  }
};

std::string UsageErrorOf(std::initializer_list<std::string> words) {
  return std::string(Program().Parse(words).status().message());
}

// A configuration file that sets every flag of Program.
constexpr char kFile[] = R"(
text: "a: b"
path: data
keys: keys.json
address: unix:run/s
level: debug
on: true
number: 9
seconds: 0.5
lease: 2s
age: 30d
size: 1GiB
limit: 0
name: [a, "b, c"]
root: ["x@t=data/x", "y=/y"]
)";

TEST(FlagSet, AFileSetsEveryKindOfFlag_WithPathsThatBeginAtItsFolder) {
  const ConfigFolder folder;
  Program program;
  const auto parsed = program.Parse({"--config", folder.Write("c.yaml", kFile)});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config_file, folder.Path("c.yaml"));
  EXPECT_EQ(program.text, "a: b");
  EXPECT_EQ(program.path, folder.Path("data"));
  EXPECT_EQ(program.keys, folder.Path("keys.json"));
  EXPECT_EQ(program.address, "unix:" + folder.Path("run/s"));
  EXPECT_EQ(program.level, "debug");
  EXPECT_TRUE(program.is_on);
  EXPECT_EQ(program.number, 9);
  EXPECT_EQ(program.seconds, absl::Seconds(0.5));
  EXPECT_EQ(program.lease, absl::Seconds(2));
  EXPECT_EQ(program.age, absl::Hours(24 * 30));
  EXPECT_EQ(program.size, 1 << 30);
  EXPECT_EQ(program.limit, 0);
  EXPECT_THAT(program.names, ElementsAre("a", "b, c"));
  EXPECT_THAT(program.roots, ElementsAre(absl::StrCat("x@t=", folder.Path("data/x")), "y=/y"));
}

TEST(FlagSet, AUrlAndAnAddressOfAHostAreNoPaths) {
  const ConfigFolder folder;
  Program program;
  const std::string file = folder.Write("c.yaml", "keys: https://x.test/keys\naddress: ampd.example.com:7443\n");
  ASSERT_TRUE(program.Parse({"--config", file}).ok());
  EXPECT_EQ(program.keys, "https://x.test/keys");
  EXPECT_EQ(program.address, "ampd.example.com:7443");
}

TEST(FlagSet, FlagsOfTheCommandLineReplaceThoseOfTheFile_AndPathsBeginAtTheWorkingDirectory) {
  const ConfigFolder folder;
  const std::string file = folder.Write("c.yaml", kFile);
  Program program;
  const auto parsed = program.Parse({"--lease", "3s", "--config", file, "--name", "d", "--on=false", "--path", "here"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(program.lease, absl::Seconds(3));
  EXPECT_THAT(program.names, ElementsAre("d")) << "not those of the file too";
  EXPECT_FALSE(program.is_on);
  EXPECT_EQ(program.path, "here");
  EXPECT_EQ(program.number, 9) << "of the file";
}

TEST(FlagSet, AFlagOfTheCommandLineHidesNoMistakeInTheFile) {
  const ConfigFolder folder;
  EXPECT_THAT(UsageErrorOf({"--lease", "3s", "--config", folder.Write("c.yaml", "lease: [1s]\n")}),
              HasSubstr("c.yaml:1:8: lease takes one value, not a list"));
}

TEST(FlagSet, EveryMistakeInTheFileIsNamedWithItsLine) {
  const ConfigFolder folder;
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"leese: 1s", "1:1: there is no key 'leese'; did you mean 'lease'?"},
           {"\nlease: soon", "2:8: lease: 'soon' is not a duration such as 90s, 1h30m or 1d12h"},
           {"lease: 1ms", "1:8: lease: '1ms' is less than 1s"},
           {"age: 1000000d", "1:6: age: '1000000d' is more than 100 years; 0 means for ever"},
           {"size: 4G", "1:7: size: '4G' is not a number of bytes such as 4096, 500MB or 4GiB; did you mean '4GB'?"},
           {"number: 10", "1:9: number: '10' is not a whole number from 0 to 9"},
           {"number: 1.5", "1:9: number: '1.5' is not a whole number from 0 to 9"},
           {"seconds: -1", "1:10: seconds: '-1' is not a duration such as 20s or 1m"},
           {"seconds: soon", "1:10: seconds: 'soon' is not a duration such as 20s or 1m"},
           {"level: debg", "1:8: level: 'debg' is not one of debug, info; did you mean 'debug'?"},
           {"name:\n  - a\n  - bad\n", "3:5: name: 'bad' is no name"},
           {"limit: 5", "1:1: limit: needs text too"},
           {"config: c.yaml", "1:1: there is no key 'config'"},
           {"help: true", "1:1: there is no key 'help'"}}) {
    const std::string file = folder.Write("c.yaml", text);
    EXPECT_THAT(UsageErrorOf({"--config", file}), testing::StartsWith(absl::StrCat(file, ":", error))) << text;
  }
}

TEST(FlagSet, AMistakeOnTheCommandLineIsNamedByItsFlag) {
  EXPECT_EQ(UsageErrorOf({"--lease", "1ms"}), "--lease: '1ms' is less than 1s; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--leese", "1s"}), "there is no flag --leese; did you mean --lease?; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--limit", "5"}), "--limit: needs --text too; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--on=perhaps"}), "--on: 'perhaps' is neither true nor false; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--lease"}), "--lease: its value is missing; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--lease", "1s", "--lease", "2s"}), "--lease: it is given more than once; see tool --help");
  EXPECT_EQ(UsageErrorOf({"--name"}), "--name: its value is missing; see tool --help");
  EXPECT_THAT(UsageErrorOf({"--config", ""}), HasSubstr("--config"));
  EXPECT_EQ(UsageErrorOf({"word"}), "unexpected word 'word'; see tool --help");
  EXPECT_EQ(UsageErrorOf({"-x"}), "there is no flag -x; see tool --help");
}

TEST(FlagSet, SecondsMayHaveAUnit) {
  for (const auto& [text, seconds] :
       std::vector<std::pair<std::string, absl::Duration>>{{"2.5", absl::Seconds(2.5)}, {"1m", absl::Minutes(1)}}) {
    Program program;
    ASSERT_TRUE(program.Parse({"--seconds", text}).ok()) << text;
    EXPECT_EQ(program.seconds, seconds);
  }
}

absl::StatusOr<ParsedFlags> ParseCommand(std::vector<const char*> words, std::string* name) {
  FlagSet flags("tool save", "Saves.", Starts::kCommand);
  flags.AddWord("NAME", "What to save", name);
  words.insert(words.begin(), "save");
  return flags.Parse(static_cast<int>(words.size()), words.data());
}

TEST(FlagSet, ACommandHasItsWordAndNoConfigurationFile) {
  std::string name;
  EXPECT_TRUE(ParseCommand({"this"}, &name).ok());
  EXPECT_EQ(name, "this");
  EXPECT_EQ(ParseCommand({}, &name).status().message(), "NAME is missing; see tool save --help");
  EXPECT_EQ(ParseCommand({"a", "b"}, &name).status().message(), "unexpected word 'b'; see tool save --help");
  EXPECT_EQ(ParseCommand({"a", "--config", "c"}, &name).status().message(),
            "there is no flag --config; see tool save --help");
  const std::string help = ParseCommand({"--help"}, &name)->output;
  EXPECT_THAT(help, HasSubstr("What to save"));
  EXPECT_THAT(help, Not(HasSubstr("--print-config")));
}

TEST(FlagSet, HelpListsTheCommandsOfAProgram_AndAMisspeltOneIsNamed) {
  FlagSet flags("tool", "A tool.");
  flags.AddCommand("save", "Save it");
  flags.AddCommand("restore", "Restore it");
  const char* const help[] = {"tool", "--help"};
  EXPECT_THAT(flags.Parse(2, help)->output, HasSubstr("Commands:\n  save                        Save it\n  restore"));
  FlagSet again("tool", "A tool.");
  again.AddCommand("save", "Save it");
  const char* const misspelt[] = {"tool", "savr", "--now"};
  EXPECT_EQ(again.Parse(2, misspelt).status().message(),
            "there is no command 'savr'; did you mean 'save'?; see tool --help");
}

TEST(FlagSet, WhatItPrintsGivesTheSameSettings) {
  const ConfigFolder folder;
  const std::string file = folder.Write("c.yaml", kFile);
  Program program;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {},
           {"--config", file},
           {"--config", file, "--name", "caf\u00e9 \"x\"\n\x1b", "--on=no"},
           {"--path", "relative", "--root", "n=relative", "--address", "unix:relative"}}) {
    const auto before = Program().Parse(words);
    ASSERT_TRUE(before.ok()) << before.status();
    const auto printed = WriteSettings(before->settings, "tool");
    ASSERT_TRUE(printed.ok()) << printed.status();
    const auto after = Program().Parse({"--config", folder.Write("printed.yaml", *printed)});
    ASSERT_TRUE(after.ok()) << after.status() << "\n" << *printed;
    EXPECT_EQ(after->settings, before->settings) << *printed;
  }
}

TEST(FlagSet, HelpAndVersionNeedNoValidFile) {
  for (const char* flag : {"--help", "--version"}) {
    Program program;
    const auto parsed = program.Parse({"--config", "/nowhere", flag});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_THAT(parsed->output, HasSubstr("tool"));
  }
  const std::string help = Program().Parse({"--help"})->output;
  for (const char* text : {"--lease DURATION=10s ", "--size SIZE=256MiB ", "--name NAME ... ", "--config FILE",
                           "--limit SIZE Needs: --text", "--print-config"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

}  // namespace
}  // namespace ampd
