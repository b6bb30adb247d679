#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/render/format.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  // Returns the help of a command and, if it is a group, of all commands below it.
  std::string HelpOfAll(const std::string& command) {
    std::string text = HelpOf(command);
    for (const std::string& verb : IsGroup(command) ? CommandsBelow(command) : std::vector<std::string>()) {
      text += HelpOfAll(absl::StrCat(command, " ", verb));
    }
    return text;
  }
};

TEST_F(AmpctlHelp, OfEveryCommand) {
  std::string text = HelpOf("");
  for (const std::string& command : CommandsBelow("")) {
    text += HelpOfAll(command);
  }
  EXPECT_THAT(text, HasSubstr("$ ampctl job submit --help\n"));
  EXPECT_THAT(text, HasSubstr("$ ampctl context show --help\n"));
  EXPECT_THAT(text, HasSubstr("$ ampctl auth token create --help\n"));
  ExpectGolden("tests/golden/client/help.txt", text);
}

TEST_F(AmpctlHelp, OnATerminal_FitsItsWidth) {
  for (const std::string command : {"", "job", "job events", "job submit", "compare", "data tokenize", "init", "dev"}) {
    for (const int columns : {50, 80}) {
      const std::string text = absl::StrReplaceAll(RunOnTerminal(command + " --help", columns).out, {{"\r", ""}});
      for (const auto line : absl::StrSplit(text, '\n')) {
        EXPECT_LE(DisplayWidth({line.data(), line.size()}), columns) << command << ": " << line;
      }
    }
  }
  EXPECT_THAT(RunOnTerminal("--help", 80).out,
              HasSubstr("  --address SERVER            Server to use: HOST:PORT, unix:/PATH of its\r\n"
                        "                              socket, or a name from ampctl context list\r\n"));
}

TEST_F(AmpctlHelp, OfTheJobFile_NamesItsFieldsAtTheTop) {
  const std::string text = Run("help job-file").out;
  const auto& type = *v1::JobSpec::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n  ", type.field(i)->name())));
  }
  const auto& kinds = *v1::ModelSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds.field_count(); ++i) {
    EXPECT_THAT(text, HasSubstr(kinds.field(i)->name()));
  }
  EXPECT_THAT(Run("help environment").out, HasSubstr("\n  AMPD_ADDRESS "));
  EXPECT_EQ(Run("help env").out, Run("help environment").out);
}

TEST_F(AmpctlHelp, OfACommandThatDoesNotExist_IsAnError) {
  for (const std::string command : {"frob", "job listt", "policy shw"}) {
    const Result result = Run(command + " --help");
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_EQ(result.err, Run(command).err) << command;
  }
}

TEST_F(AmpctlHelp, OfACommandByHelpAndItsName_IsTheSameAsWithTheOption) {
  for (const char* command : {"job", "job submit", "job ls", "health"}) {
    const Result result = Run(absl::StrCat("help ", command));
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_EQ(result.out, Run(absl::StrCat(command, " --help")).out) << command;
  }
  EXPECT_EQ(Run("help").out, Run("--help").out);
  EXPECT_THAT(Run("help exit-codes").out, HasSubstr("  5  the server cannot be reached\n"));
}

TEST_F(AmpctlHelp, OfACommandThatDoesNotExist_NamesTheOneThatWasMeant) {
  const Result wrong = Run("help job lst");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("error: ampctl job has no command 'lst'; its commands are submit, "));
  EXPECT_THAT(wrong.err, HasSubstr("  did you mean 'list'?\n"));
  const std::string topics = "\n  topics of ampctl help: exit-codes, job-file, environment\n";
  EXPECT_THAT(Run("help formatting").err, HasSubstr(topics));
  EXPECT_THAT(wrong.err, Not(HasSubstr("topics")));
  EXPECT_THAT(Run("formatting").err, Not(HasSubstr("topics")));
  EXPECT_EQ(Run("help sacct").err, "error: ampctl has no command 'sacct'; to list jobs: ampctl job list\n");
  EXPECT_THAT(Run("help job submit now").err,
              HasSubstr("error: 'now' is not a command: ampctl job submit has no subcommands"));
}

TEST_F(Ampctl, Version_IsThatOfAmpctlAndOfTheServerIfItAnswers) {
  const std::string own = Run("--version").out;
  const Result both = Run("version");
  EXPECT_EQ(both.exit_code, 0);
  EXPECT_EQ(both.out, absl::StrCat(own, "ampd-server 9.8.7 at ", fake_.address(), "\nampd-worker 1.2.3: w1\n"));
  const std::string apart =
      "is more than one minor version away from the server's 9.8.7; use an ampctl of the server's version\n";
  EXPECT_EQ(both.err, absl::StrCat("ampctl ", own.substr(7, own.size() - 8), " ", apart,
                                   "w1 has ampd 1.2.3, more than one minor version away from the server's 9.8.7; "
                                   "upgrade the worker or the server, whichever is older\n"));
  EXPECT_EQ(Run("health").err, absl::StrCat("ampctl ", own.substr(7, own.size() - 8), " ", apart));
  EXPECT_THAT(Run("version -o yaml").out, HasSubstr(absl::StrCat("server:\n  address: \"", fake_.address(), "\"\n  ")));
  fake_.jobs.script()->lacks_server_info = true;
  const Result old = Run("version");
  EXPECT_EQ(old.exit_code, 0);
  EXPECT_EQ(old.out, own);
  EXPECT_EQ(old.err, absl::StrCat("the server at ", fake_.address(), " is too old to report its version\n"));
}

TEST_F(Ampctl, Version_WithoutAServerOrAnAddress_IsStillThatOfAmpctl) {
  const std::string own = Run("--version").out;
  const Result nowhere = Run("version", "AMPD_ADDRESS=127.0.0.1:1");
  EXPECT_EQ(nowhere.exit_code, 0);
  EXPECT_EQ(nowhere.out, own);
  EXPECT_EQ(nowhere.err, "no server answers at 127.0.0.1:1 within 1s, so its version is not known\n");
  const Result wrong = Run("version", "AMPD_ADDRESS=nowhere");
  EXPECT_EQ(wrong.exit_code, 0);
  EXPECT_EQ(wrong.out, own);
  EXPECT_THAT(wrong.err, HasSubstr("the server's version is not known: the address 'nowhere' from AMPD_ADDRESS is "));
  EXPECT_EQ(Run("version -q", "AMPD_ADDRESS=nowhere").err, "");
}

}  // namespace
}  // namespace ampd::client
