#include "base/flags/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/base/flags/config_folder.h"

namespace ampd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string ParseErrorOf(std::string_view text) { return std::string(ParseConfig(text, "c.yaml").status().message()); }

// `text`: a configuration file with one entry. Reads this entry as an entry of the kind `kind`. Returns the entry's
// values, each followed by a bar, or the error.
std::string Values(const std::string& text, ConfigValues kind) {
  const auto entries = ParseConfig(text, "c.yaml");
  EXPECT_TRUE(entries.ok() && entries->size() == 1) << text;
  const auto values = ValuesOf(entries->at(0), kind);
  std::string all = values.ok() ? "" : std::string(values.status().message());
  for (const YamlNode& value : values.value_or(std::vector<YamlNode>())) {
    all += value.text + "|";
  }
  return all;
}

TEST(ConfigFile, KeysHaveOneValueOrAListOrAreSwitches) {
  EXPECT_EQ(Values("lease: 10s", ConfigValues::kOne), "10s|");
  EXPECT_EQ(Values("name: '007'", ConfigValues::kOne), "007|");
  EXPECT_EQ(Values("name: \"\"", ConfigValues::kOne), "|");
  EXPECT_EQ(Values("no-warm: true", ConfigValues::kSwitch), "true|");
  EXPECT_EQ(Values("grant: [a, b]", ConfigValues::kList), "a|b|");
  EXPECT_EQ(Values("grant:\n  - a\n  - b\n", ConfigValues::kList), "a|b|");
  EXPECT_EQ(Values("grant: []", ConfigValues::kList), "");
}

TEST(ConfigFile, AValueOfAnotherTypeIsRefusedWhereItStands) {
  EXPECT_EQ(Values("lease: [10s]", ConfigValues::kOne), "c.yaml:1:8: lease takes one value, not a list");
  EXPECT_EQ(Values("lease:\n  time: 10s", ConfigValues::kOne),
            "c.yaml:2:3: lease takes one value, not a mapping; keys cannot be nested");
  EXPECT_EQ(Values("lease:", ConfigValues::kOne), "c.yaml:1:1: lease has no value; add one, or remove the line");
  EXPECT_THAT(Values("name: null", ConfigValues::kOne), HasSubstr("name is 'null', which means no value in YAML"));
  EXPECT_THAT(Values("name: ~", ConfigValues::kOne), HasSubstr("put the text in quotes"));
  EXPECT_EQ(Values("no-warm: yes", ConfigValues::kSwitch), "c.yaml:1:10: no-warm must be true or false, not 'yes'");
  EXPECT_EQ(Values("no-warm: 1", ConfigValues::kSwitch), "c.yaml:1:10: no-warm must be true or false, not '1'");
  EXPECT_EQ(Values("grant: a", ConfigValues::kList), "c.yaml:1:8: grant takes a list, not 'a'; write grant: [a]");
  EXPECT_EQ(Values("grant: [a, [b]]", ConfigValues::kList), "c.yaml:1:12: an item of grant must be a text, not a list");
  EXPECT_THAT(Values("grant: [a, ]", ConfigValues::kList), "a|");
  EXPECT_THAT(Values("grant:\n  - a\n  -\n", ConfigValues::kList), HasSubstr("must be a text, not empty"));
}

TEST(ConfigFile, WhatIsNotPlainYamlIsRefusedWhereItStands) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"a: 1\na: 2\n", "c.yaml:2:1: the key 'a' appears twice; first in line 1"},
           {"a: 1\n\tb: 2\n", "c.yaml:2:1: indented by a tab"},
           {"a: &x 1\n", "c.yaml:1:4: a value that begins with '&'"},
           {"a: 1\nb: *x\n", "c.yaml:2:4: "},
           {"a: caf\xe9\n", "c.yaml:1:7: the byte 0xe9 at offset 6 is not UTF-8; save the text as UTF-8"},
           {"a: 1\n---\nb: 2\n", "c.yaml:2:1: a second YAML document"},
           {"- a\n", "c.yaml:1:1: a configuration file has lines of the form KEY: VALUE"},
           {"listen\n", "c.yaml:1:1: a configuration file has lines of the form KEY: VALUE"},
           {"listen = 1\n", "c.yaml:1:1: "},
           {"listen:1\n", "c.yaml:1:"},
           {"a: 'b\n", "c.yaml:1:4: not YAML: the quote ' is not closed"}}) {
    EXPECT_THAT(ParseErrorOf(text), StartsWith(error)) << text;
    EXPECT_THAT(ParseErrorOf(text), testing::Not(HasSubstr("job file"))) << text;
    EXPECT_THAT(ParseErrorOf(text), testing::Not(HasSubstr("\n"))) << text;
  }
}

TEST(ConfigFile, AFileOfCommentsHasNoKeys) {
  for (const char* text : {"", "\n", "# data-dir: /var/lib/ampd\n", "---\n# nothing\n"}) {
    const auto entries = ParseConfig(text, "c.yaml");
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_TRUE(entries->empty());
  }
}

TEST(ConfigFile, AnUnknownKeyIsAnsweredByTheNearest) {
  const std::vector<std::string> keys = {"data-dir", "listen", "lease"};
  const auto error = [&keys](const std::string& key) {
    return std::string(UnknownKey({key, {"c.yaml", 3, 1}, {}}, keys).message());
  };
  EXPECT_EQ(error("lisen"), "c.yaml:3:1: there is no key 'lisen'; did you mean 'listen'?");
  EXPECT_EQ(error("data_dir"), "c.yaml:3:1: there is no key 'data_dir'; did you mean 'data-dir'?");
  EXPECT_EQ(error("--lease"), "c.yaml:3:1: there is no key '--lease'; did you mean 'lease'?");
  EXPECT_THAT(error("colour"),
              HasSubstr("there is no key 'colour'; keys are the names of flags without the leading dashes"));
  EXPECT_THAT(error("a\nb\x1b"), testing::Not(HasSubstr("\n")));
}

TEST(ConfigFile, AFileThatCannotBeReadOrThatOthersMayWriteIsRefused) {
  const ConfigFolder folder;
  const auto error = [](const std::string& path) { return std::string(ReadConfigFile(path).status().message()); };
  EXPECT_EQ(error(folder.Path("none.yaml")), folder.Path("none.yaml") + ": cannot be read: No such file or directory");
  EXPECT_THAT(error(folder.Path("")), HasSubstr("is not a file"));
  const std::string file = folder.Write("c.yaml", "lease: 10s\n");
  EXPECT_TRUE(ReadConfigFile(file).ok()) << error(file);
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(ReadConfigFile(file).ok()) << "others may read it";
  for (const mode_t mode : {0666, 0664}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    EXPECT_THAT(error(file), HasSubstr("chmod")) << mode;
  }
}

}  // namespace
}  // namespace ampd
