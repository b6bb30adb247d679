#include "base/flags/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ampd {
namespace {

using testing::HasSubstr;

Settings Example() {
  return {
      {.key = "data-dir", .type = "PATH", .is_set = true, .values = {"/var/lib/ampd"}},
      {.key = "grant", .type = "GRANT", .is_list = true, .is_set = true, .values = {"cert:w=agent", "uid:7=viewer"}},
      {.key = "warm", .is_set = true, .values = {"true"}},
      {.key = "jobs", .type = "N", .values = {"200"}},
      {.key = "device", .type = "DEVICE", .is_list = true},
      {.key = "listen", .type = "HOST:PORT"}};
}

TEST(Settings, AreWrittenWithDefaultsAndTheRestInComments) {
  EXPECT_EQ(WriteSettings(Example(), "tool").value(),
            "# Configuration of tool\n"
            "data-dir: \"/var/lib/ampd\"\n"
            "grant:\n"
            "  - \"cert:w=agent\"\n"
            "  - \"uid:7=viewer\"\n"
            "warm: true\n"
            "\n"
            "# Defaults\n"
            "# jobs: 200\n"
            "\n"
            "# Not set\n"
            "# device: [DEVICE]\n"
            "# listen: HOST:PORT\n");
}

TEST(Settings, AValueThatIsNotUtf8CannotBeWritten) {
  Settings settings = Example();
  settings[0].values = {"caf\xe9"};
  EXPECT_THAT(std::string(WriteSettings(settings, "tool").status().message()),
              HasSubstr("--data-dir: the byte 0xe9 at offset 3 is not UTF-8"));
}

TEST(RunningSettings, KeysThatAreNotReloadableStay_AndAreNamedAgain) {
  RunningSettings running(Example());
  Settings next = Example();
  next[1].values.pop_back();
  next[3].values = {"7"};
  for (int i = 0; i < 2; ++i) {
    const std::vector<SettingChange> changes = running.Reload(next, {"grant"});
    ASSERT_EQ(changes.size(), i == 0 ? 2u : 1u);
    if (i == 0) {
      EXPECT_EQ(changes[0].key, "grant");
      EXPECT_EQ(changes[0].from, "[\"cert:w=agent\", \"uid:7=viewer\"]");
      EXPECT_EQ(changes[0].to, "[\"cert:w=agent\"]");
      EXPECT_TRUE(changes[0].is_applied);
    }
    EXPECT_EQ(changes.back().key, "jobs");
    EXPECT_EQ(changes.back().from, "200");
    EXPECT_EQ(changes.back().to, "7");
    EXPECT_FALSE(changes.back().is_applied);
  }
  next[3].values = {"200"};
  EXPECT_TRUE(running.Reload(next, {"grant"}).empty()) << "it is what the program runs with";
}

}  // namespace
}  // namespace ampd
