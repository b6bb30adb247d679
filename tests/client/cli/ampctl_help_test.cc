#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;

class AmpctlHelp : public Ampctl {
 protected:
  // Returns the commands below a group, which are the words that completion offers after the group's name. The group
  // "" is ampctl itself.
  std::vector<std::string> CommandsBelow(const std::string& group) {
    return absl::StrSplit(Run(absl::StrCat("__complete ", group, " ''")).out, '\n', absl::SkipEmpty());
  }
  bool IsGroup(const std::string& command) {
    return Run(absl::StrCat(command, " --help")).out.find("SUBCOMMAND") != std::string::npos;
  }
  std::string HelpOf(const std::string& command) {
    const Result help = Run(absl::StrCat(command, " --help"));
    EXPECT_EQ(help.exit_code, 0) << command;
    return absl::StrCat("$ ampctl ", command, command.empty() ? "" : " ", "--help\n", help.out, "\n");
  }
};

TEST_F(AmpctlHelp, OfEveryCommand) {
  std::string text = HelpOf("");
  for (const std::string& command : CommandsBelow("")) {
    text += HelpOf(command);
    for (const std::string& verb : IsGroup(command) ? CommandsBelow(command) : std::vector<std::string>()) {
      text += HelpOf(absl::StrCat(command, " ", verb));
    }
  }
  EXPECT_THAT(text, HasSubstr("$ ampctl job submit --help\n"));
  EXPECT_THAT(text, HasSubstr("$ ampctl context show --help\n"));
  ExpectGolden("tests/golden/client/help.txt", text);
}

}  // namespace
}  // namespace ampd::client
