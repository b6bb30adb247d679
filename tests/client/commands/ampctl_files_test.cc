// Tests the paths that every command rejects when it writes a file: its own input, an existing file, a folder, and a
// place where it cannot write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "client/commands/output_file.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/client/commands/checkpoint_fixture.h"

namespace ampd::client {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AmpctlFiles : public Ampctl {
 protected:
  AmpctlFiles() {
    Write("text", "abc");
    Write("vocab.txt", "[UNK]\nabc\n");
    Write("job.yaml", kGoodJob);
    WriteCheckpoint(folder_ + "/ck");
    std::filesystem::create_directories(folder_ + "/pictures/a");
    Write("pictures/a/1.png", "a picture");
    digest_ = fake_.artifacts.Add("content");
  }
  // Returns commands that write a file, without their last argument, which is the path of that file.
  std::vector<std::string> Writers() const {
    return {"data tokenize text",
            "data pack --size 8 pictures",
            "checkpoint export ck",
            "artifact download " + digest_,
            "init",
            "compare -f job.yaml --html"};
  }
  std::string Slurp(const std::string& name) const { return *ReadFile(folder_ + "/" + name, 1 << 20); }

  std::string digest_;
};

TEST_F(AmpctlFiles, AnInput_IsNeverReplaced) {
  std::filesystem::create_symlink("text", folder_ + "/link");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data tokenize text text", "text"},
      {"data tokenize text ./text", "text"},
      {"data tokenize text link", "text"},
      {"data tokenize text vocab.txt --vocab vocab.txt", "vocab.txt"},
      {"data pack --size 8 pictures pictures/a/1.png", "pictures/a/1.png"},
      {"checkpoint export ck ck/model.safetensors", "ck/model.safetensors"},
      {"checkpoint export ck ck/optimizer.safetensors", "ck/optimizer.safetensors"},
      {"compare -f job.yaml --html job.yaml", "job.yaml"}};
  for (const auto& [command, input] : cases) {
    const std::string before = Slurp(input);
    for (const char* force : {"", " --force"}) {
      const Result result = Run(command + force);
      EXPECT_EQ(result.exit_code, 2) << command << force;
      EXPECT_THAT(result.err, HasSubstr("error: input and output are the same file: ")) << command << force;
    }
    EXPECT_EQ(Slurp(input), before) << command;
  }
}

TEST_F(AmpctlFiles, AFileThatExists_IsReplacedOnlyWithForce) {
  for (const std::string& command : Writers()) {
    Write("mine", "mine");
    const Result result = Run(command + " mine");
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_EQ(result.err, "error: mine already exists; write to another file, or use --force to replace this one\n")
        << command;
    EXPECT_EQ(Slurp("mine"), "mine") << command;
  }
  EXPECT_EQ(Run("init mine --force").exit_code, 0);
  EXPECT_NE(Slurp("mine"), "mine");
}

TEST_F(AmpctlFiles, AFileOfTheUserThatEndsInTmp_IsKept) {
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  for (const char* command : {"init", "checkpoint export ck", "compare -f job.yaml --html"}) {
    Write("out.safetensors.tmp", "mine");
    const Result result = Run(absl::StrCat(command, " out.safetensors"));
    EXPECT_TRUE(std::filesystem::remove(folder_ + "/out.safetensors")) << command << result.err;
    EXPECT_EQ(Slurp("out.safetensors.tmp"), "mine") << command;
  }
}

TEST_F(AmpctlFiles, AFileThatAppearedAfterTheCheck_IsKept) {
  Write("new", "mine");
  const absl::Status refused = WriteOutputFile(folder_ + "/new", "content", /*replace=*/false);
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/new already exists; write to another file, or use --force"));
  EXPECT_EQ(Slurp("new"), "mine");
  EXPECT_TRUE(WriteOutputFile(folder_ + "/new", "content", /*replace=*/true).ok());
  EXPECT_EQ(Slurp("new"), "content");
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteOutputFile(folder_ + "/nowhere/new", "content", /*replace=*/false)));
}

TEST_F(AmpctlFiles, AFileNameInASuggestedCommand_IsQuotedForAShell) {
  const Result blank = Run("init 'a b.yaml'");
  EXPECT_THAT(blank.err, HasSubstr("to check it: ampctl job submit -f 'a b.yaml' --dry-run\n"));
  EXPECT_THAT(blank.err, HasSubstr("to run it:   ampctl job submit -f 'a b.yaml' --follow\n"));
  EXPECT_THAT(Run("init \"it's.yaml\"").err, HasSubstr("ampctl job submit -f 'it'\\''s.yaml' --dry-run\n"));
  EXPECT_THAT(Run("job submit -f 'https://h/j.yaml?a=1&b=2'").err,
              HasSubstr("curl -s 'https://h/j.yaml?a=1&b=2' | ampctl job submit -f -\n"));
}

TEST_F(AmpctlFiles, AFolderInPlaceOfAFile_IsNamed) {
  for (const std::string& command : Writers()) {
    for (const char* force : {"", " --force"}) {
      const Result result = Run(command + " pictures" + force);
      EXPECT_EQ(result.exit_code, 1) << command;
      EXPECT_EQ(result.err, "error: pictures is a folder; name a file\n") << command;
    }
    EXPECT_EQ(Run(command + " nowhere/").err, "error: nowhere/ is a folder; name a file\n") << command;
  }
}

TEST_F(AmpctlFiles, APlaceThatCannotBeWritten_EndsWithOne) {
  for (const std::string& command : Writers()) {
    const Result missing = Run(command + " nowhere/out");
    EXPECT_EQ(missing.exit_code, 1) << command;
    EXPECT_EQ(missing.err, "error: nowhere/out cannot be written: the folder nowhere does not exist; create it first\n")
        << command;
    EXPECT_EQ(Run(command + " text/out").exit_code, 1) << command;
    EXPECT_EQ(Run(command + " /dev/null --force").exit_code, 1) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nowhere"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// Writes into /proc, where not even root can create files.
TEST_F(AmpctlFiles, AFolderWithoutPermission_EndsWithOne) {
  for (const std::string& command : Writers()) {
    if (command.starts_with("compare")) {
      continue;  // compare writes its file only after its jobs have ended.
    }
    const Result result = Run(command + " /proc/out");
    EXPECT_EQ(result.exit_code, 1) << command << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr("/proc/out")) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("open:"))) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("create:"))) << command;
  }
}

TEST(OutputErrors, OfTheFileSystemHaveOneCode) {
  for (const auto code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kPermissionDenied, absl::StatusCode::kInternal}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(AsOutputError(absl::Status(code, "out: cannot be created"))));
    EXPECT_EQ(ErrorOfFile("in", absl::Status(code, "out: cannot be created")).code(), code);
  }
  EXPECT_TRUE(absl::IsNotFound(AsOutputError(Error(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND", "gone"))));
  EXPECT_TRUE(absl::IsCancelled(AsOutputError(absl::CancelledError("interrupted"))));
}

// Runs ampctl as a user who may not read the file. As root, the test changes the user, because root may read every
// file.
TEST_F(AmpctlFiles, AnInputThatMayNotBeRead_OrIsAFolder_EndsWithTwo) {
  Write("closed", "content\n");
  std::filesystem::create_directories(folder_ + "/folder/state.json");
  ASSERT_EQ(chmod((folder_ + "/closed").c_str(), geteuid() == 0 ? 0600 : 0), 0);
  std::string as_user = "AMPD_ADDRESS=" + fake_.address();
  bool reads_nothing = true;
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
    const std::string user = as_user + " setpriv --reuid=65534 --regid=65534 --clear-groups";
    reads_nothing = Run("--version", user).exit_code == 0;
    as_user = reads_nothing ? user : as_user;
  }
  for (const std::string command : {"data inspect %", "model inspect %", "artifact upload %", "data tokenize % tokens",
                                    "data tokenize text tokens --vocab %", "job submit -f %"}) {
    SCOPED_TRACE(command);
    Write("text", "some text\n");
    ASSERT_EQ(chmod((folder_ + "/text").c_str(), 0644), 0);
    const Result folder = Run(absl::StrReplaceAll(command, {{"%", "folder"}}), as_user);
    EXPECT_EQ(folder.exit_code, 2) << folder.err;
    EXPECT_THAT(folder.err, AnyOf(HasSubstr("folder is a folder; name a file"), HasSubstr("Is a directory")));
    if (reads_nothing) {
      const Result closed = Run(absl::StrReplaceAll(command, {{"%", "closed"}}), as_user);
      EXPECT_EQ(closed.exit_code, 2) << closed.err;
      EXPECT_THAT(closed.err, HasSubstr("Permission denied"));
    }
  }
  EXPECT_EQ(Run("checkpoint verify folder", as_user).exit_code, 2) << "its manifest is a folder";
}

TEST_F(AmpctlFiles, AnInputThatIsMissing_IsNoSameFile) {
  EXPECT_EQ(Run("data tokenize missing missing").exit_code, 3);
  EXPECT_TRUE(CheckInputsAreKept({"-", folder_ + "/missing"}, "-").ok());
}

}  // namespace
}  // namespace ampd::client
