// Tests how ampctl prints texts of other programs and users: names, messages, logs, files and times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/render/format.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Ampctl, ErrorsOfAHostileServerDoNotControlTheTerminal) {
  fake_.hostile_text.Set(kHostile);
  const std::string id = "j-nonenonenonenone";  // has the form of an id, so ampctl does not search for it by name
  for (const std::string& command : {"job show " + id, "job watch " + id, "job logs " + id, "job cancel " + id,
                                     "checkpoint list " + id, std::string("worker drain none")}) {
    const Result result = Run(command);
    EXPECT_NE(result.exit_code, 0) << command;
    EXPECT_EQ(PrintableLines(result.err), result.err) << command;
    EXPECT_THAT(result.err, HasSubstr("\\x1b[31mRED")) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("\nFORGED"))) << command;
  }
}

TEST_F(Ampctl, ListsAndLookUpsOfAHostileServerDoNotControlTheTerminal) {
  fake_.jobs.Add("twin", v1::Job::QUEUED);
  fake_.jobs.Add("twin", v1::Job::QUEUED);
  v1::Pending pending;
  pending.set_reason(v1::PendingReason::NO_MATCHING_DEVICE);
  pending.set_message("why");
  pending.set_no_worker_fits(true);
  fake_.jobs.script()->pending = pending;
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  fake_.hostile_text.Set(kHostile);
  for (const std::string command :
       {"job list", "job list -o wide", "job list -o csv", "job list -q", "job list --sort name,desc", "worker list",
        "worker list -o csv", "policy list -o csv", "job show twin", "job cancel twin", "job submit -f job.yaml",
        "job list --watch --interval 50ms | head -n 3", "job list --watch --interval 50ms -o csv | head -n 3"}) {
    const Result result = Run(command);
    const std::string text = result.out + result.err;
    EXPECT_NE(text, "") << command;
    EXPECT_EQ(PrintableLines(text), text) << command;
    EXPECT_THAT(text, Not(HasSubstr("\nFORGED"))) << command;
  }
  EXPECT_THAT(Run("job show twin").err, HasSubstr("twin\\x1b[31mRED"));
  const Result watched = RunOnTerminal("job list -o csv");
  EXPECT_THAT(watched.out, Not(HasSubstr("\x1b")));
}

TEST_F(Ampctl, ALogIsCleanedOnATerminalAndKeptInAFile) {
  const std::string log = std::string("ab\xff\n") + kHostile + "\n";
  fake_.jobs.script()->log = log;
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  EXPECT_EQ(Run("job logs --tail-bytes 4KiB " + id).exit_code, 0);
  EXPECT_EQ(Run(absl::StrCat("job logs --tail-bytes ", log.size(), " ", id)).out, log);
  const Result shown = RunOnTerminal("job logs " + id);
  EXPECT_THAT(shown.out, HasSubstr("ab\\xff\r\n\\x1b[31mRED\\x1b[2J\\x1b]0;t\\x07\\u009b2J\\u202eFLIP"));
  EXPECT_THAT(shown.out, Not(HasSubstr("\x1b")));
}

TEST_F(Ampctl, TheBytesOfAnArtifactAreNotPrintedOnATerminal) {
  const std::string name = fake_.artifacts.Add(kHostile);
  const Result shown = RunOnTerminal("artifact download " + name + " -");
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_THAT(shown.out, HasSubstr("could control the terminal"));
  EXPECT_THAT(shown.out, Not(HasSubstr("RED")));
  EXPECT_EQ(Run("artifact download " + name + " -").out, kHostile);
}

TEST_F(Ampctl, TimesNameTheZoneOfTheVariableTz) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const std::string server = "AMPD_ADDRESS=" + fake_.address();
  for (const char* options : {"", " -o wide"}) {
    const std::string command = absl::StrCat("job events ", id, options);
    EXPECT_THAT(Run(command, "TZ=UTC " + server).out, HasSubstr("1970-01-01 00:00:00 UTC  "));
    EXPECT_THAT(Run(command, "TZ=Asia/Tokyo " + server).out, HasSubstr("1970-01-01 09:00:00 JST  "));
    EXPECT_THAT(Run(command, "TZ=Nowhere/Else " + server).out, HasSubstr("1970-01-01 00:00:00 UTC  "));
  }
}

TEST_F(Ampctl, AContextsFileThatIsNotUtf8_IsNamedWithTheByte) {
  std::filesystem::create_directories(folder_ + "/config/ampd");
  Write("config/ampd/contexts", "current caf\xe9\n");
  const Result result = Run("context list");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("config/ampd/contexts: the byte 0xe9 at offset 11 is not UTF-8"));
}

TEST_F(Ampctl, ContextsWithHostileNamesDoNotControlTheTerminal) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  const std::string hostile = "\"$(printf 'a\\033[31mRED\\342\\200\\256b')\"";
  for (const std::string& command :
       {"context add " + hostile + " 127.0.0.1:1", "context use " + hostile, std::string("context list"),
        std::string("context list -q"), std::string("context show"), std::string("context list -o json"),
        std::string("context show -o yaml"), "job list --filter name=" + hostile, "job show " + hostile,
        "context use no" + hostile, "job submit -f " + hostile, "data inspect " + hostile,
        "job submit -f job.yaml --dry-run --name " + hostile}) {
    const Result result = Run(command + " --color always");
    const std::string text = result.out + result.err;
    EXPECT_EQ(PrintableLines(text), text) << command;
    EXPECT_THAT(text, Not(HasSubstr("\x1b[31mRED"))) << command;
  }
}

TEST_F(Ampctl, APathMayHaveBytesThatAreNotUtf8) {
  Write("caf\xe9.bin", "content");
  const Result result = Run("artifact upload caf\xe9.bin");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(PrintableLines(result.out + result.err), result.out + result.err);
  Write("caf\xe9.idx", std::string("\0\0\x08\x01\0\0\0\x01\x02", 9));
  for (const char* format : {"table", "json", "yaml"}) {
    const Result inspected = Run(absl::StrCat("data inspect caf\xe9.idx -o ", format));
    EXPECT_EQ(inspected.exit_code, 0);
    EXPECT_THAT(inspected.out, HasSubstr("caf?.idx"));
    EXPECT_EQ(inspected.err, "") << "the libraries below have nothing to say either";
  }
}

}  // namespace
}  // namespace ampd::client
