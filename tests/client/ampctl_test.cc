#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "tests/client/fake_server.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGoodJob[] = "name: x\ndata:\n  batch_size: 4\n";

struct Result {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs the real ampctl in a folder of its own against the fake server.
class Ampctl : public ::testing::Test {
 protected:
  Ampctl() {
    std::string name = ::testing::TempDir() + "ampctl-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Ampctl() override { std::filesystem::remove_all(folder_); }

  Result Run(const std::string& arguments, const std::string& environment = "") {
    const std::string address = environment.empty() ? "AMPD_ADDRESS=" + fake_.address() : environment;
    const std::string command = "cd " + folder_ + " && env -u NO_COLOR -u AMPD_ADDRESS XDG_CONFIG_HOME=" + folder_ +
                                "/config LC_ALL=C " + address + " " AMPD_BIN_DIR "/ampctl " + arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), *ReadFile(folder_ + "/out", 1 << 24), *ReadFile(folder_ + "/err", 1 << 24)};
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + name, text).ok());
  }

  FakeServer fake_;
  std::string folder_;
};

TEST_F(Ampctl, SubmitPrintsTheIdOnStdoutAndTheNextCommandsOnStderr) {
  Write("job.yaml", kGoodJob);
  const Result result = Run("job submit -f job.yaml --name other");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "j-aaaaaaaaaaaaaaa0\n");
  EXPECT_THAT(result.err, HasSubstr("ampctl job watch j-aaaaaaaaaaaaaaa0"));
  EXPECT_THAT(Run("job show j-aaaaaaaaaaaaaaa0 -o json").out, HasSubstr("\"name\": \"other\""));
}

TEST_F(Ampctl, SubmitRepeatsALostAnswerAndMakesOneJob) {
  Write("job.yaml", kGoodJob);
  fake_.jobs.refuse_creates = 2;
  const Result result = Run("job submit -q -f job.yaml");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fake_.jobs.refuse_creates, 0) << "the fault never fired";
  EXPECT_EQ(fake_.jobs.size(), 1);
}

TEST_F(Ampctl, SubmitPlacesTheServersViolationsInTheFile) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: -4\n");
  const Result result = Run("job submit -f job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("error: job.yaml:3:3: data.batch_size: -4 is below 1"));
  EXPECT_EQ(fake_.jobs.size(), 0);
}

TEST_F(Ampctl, SubmitReadsStdinAndDryRunKeepsNothing) {
  Write("job.yaml", kGoodJob);
  const Result result = Run("job submit -f - --dry-run < job.yaml");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("batchSize: 4"));
  EXPECT_EQ(fake_.jobs.size(), 0);
}

TEST_F(Ampctl, SubmitOfAWrongFileOrNoFileIsAUsageError) {
  Write("job.yaml", "nam: x\n");
  const Result result = Run("job submit -f job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'name'?"));
  EXPECT_EQ(Run("job submit -f missing.yaml").exit_code, 2);
}

TEST_F(Ampctl, ListFollowsPagesInEveryFormat) {
  for (int i = 0; i < 5; ++i) {
    fake_.jobs.Add("n", v1::Job::QUEUED);
  }
  const std::string ids = Run("job list -o name").out;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), '\n'), 5);
  const std::string table = Run("job list").out;
  EXPECT_THAT(table, HasSubstr("ID"));
  EXPECT_THAT(table, Not(HasSubstr("\x1b"))) << "colours off a terminal";
  EXPECT_THAT(Run("job list --no-headers").out, Not(HasSubstr("STATE")));
  EXPECT_THAT(Run("job list --color always").out, HasSubstr("ID"));
  EXPECT_THAT(Run("job list -o json").out, ::testing::StartsWith("[{"));
  EXPECT_THAT(Run("job list -o yaml").out, HasSubstr("state: QUEUED"));
}

TEST_F(Ampctl, WatchResumesACutStreamWithoutGapOrDouble) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  fake_.jobs.cut_watch_after = 3;
  const Result result = Run("job watch -o jsonl " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fake_.jobs.num_cuts, 4);
  std::string sequences;
  for (int i = 1; i <= 13; ++i) {
    const size_t at = result.out.find(absl::StrCat("\"sequence\":\"", i, "\""));
    ASSERT_NE(at, std::string::npos) << i;
    EXPECT_EQ(result.out.find(absl::StrCat("\"sequence\":\"", i, "\""), at + 1), std::string::npos) << i;
  }
  EXPECT_EQ(fake_.jobs.watch_tokens, (std::vector<std::string>{"", "3", "6", "9", "12"}));
}

TEST_F(Ampctl, WatchOffATerminalPrintsLines) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const Result result = Run("job watch " + id);
  EXPECT_THAT(result.out, HasSubstr("step 10 "));
  EXPECT_THAT(result.out, HasSubstr("overflow at step 2"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(Ampctl, ExitCodesTellHowTheJobEnded) {
  EXPECT_EQ(Run("job wait " + fake_.jobs.Add("n", v1::Job::SUCCEEDED).id()).exit_code, 0);
  EXPECT_EQ(Run("job wait " + fake_.jobs.Add("n", v1::Job::FAILED).id()).exit_code, 1);
  EXPECT_EQ(Run("job watch " + fake_.jobs.Add("n", v1::Job::CANCELLED).id()).exit_code, 6);
  EXPECT_EQ(Run("job show j-nowhere").exit_code, 3);
  EXPECT_EQ(Run("job watch j-nowhere").exit_code, 3);
  EXPECT_EQ(Run("job list", "AMPD_ADDRESS=127.0.0.1:1").exit_code, 5);
  EXPECT_EQ(Run("job watch x", "AMPD_ADDRESS=127.0.0.1:1").exit_code, 5);
  EXPECT_EQ(Run("jb list").exit_code, 2);
  EXPECT_THAT(Run("help exit-codes").out, HasSubstr("130  Ctrl-C"));
}

TEST_F(Ampctl, AnUnreachableServerIsOneLineOfWhyAndOneOfWhatToDo) {
  EXPECT_EQ(Run("job list", "AMPD_ADDRESS=127.0.0.1:1").err,
            "error: cannot reach the server at 127.0.0.1:1: Connection refused\n"
            "  try: is a server running there? start one with: ampctl dev   (address from AMPD_ADDRESS; others: "
            "--address, AMPD_ADDRESS, ampctl context use)\n");
}

TEST_F(Ampctl, AWrongCommandGetsTheNearestOne) {
  EXPECT_THAT(Run("job sumbit -f x").err, HasSubstr("did you mean 'submit'?"));
}

TEST_F(Ampctl, LogsGoOnAfterACutStream) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const Result result = Run("job logs " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "line one\nline two\n");
}

TEST_F(Ampctl, VerbsExplainAndWorkers) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  EXPECT_THAT(Run("job explain " + id).out, HasSubstr("needs 8.0 GiB, 4.0 GiB free"));
  EXPECT_EQ(Run("job cancel " + id).out, id + "  CANCELLED\n");
  EXPECT_EQ(Run("job delete " + id + " < /dev/null").exit_code, 2);
  EXPECT_EQ(Run("job delete --yes " + id).exit_code, 0);
  EXPECT_EQ(fake_.jobs.size(), 0);
  EXPECT_THAT(Run("worker list").out, HasSubstr("READY"));
  EXPECT_THAT(Run("worker drain w1").out, HasSubstr("DRAINING"));
  EXPECT_EQ(Run("worker drain w2").exit_code, 3);
  EXPECT_EQ(Run("health").exit_code, 0);
}

TEST_F(Ampctl, TheAddressComesFromFlagThenVariableThenProjectThenContext) {
  const std::string none = "AMPD_NONE=1";
  EXPECT_THAT(Run("context show", none).out, HasSubstr("127.0.0.1:7070  (from the default)"));
  EXPECT_EQ(Run("context add lab lab.example:1").exit_code, 0);
  EXPECT_THAT(Run("context show", none).out, HasSubstr("lab.example:1  (from context lab)"));
  std::filesystem::create_directory(folder_ + "/.ampd");
  Write(".ampd/context", "127.0.0.1:2\n");
  EXPECT_THAT(Run("context show", none).out, HasSubstr("127.0.0.1:2  (from .ampd/context)"));
  EXPECT_THAT(Run("context show", "AMPD_ADDRESS=127.0.0.1:3").out, HasSubstr("127.0.0.1:3  (from AMPD_ADDRESS)"));
  EXPECT_THAT(Run("context show --address lab").out, HasSubstr("lab.example:1  (from --address)"));
  EXPECT_EQ(Run("context use nowhere").exit_code, 3);
}

TEST_F(Ampctl, TheCompletionScriptIsBash) {
  Run("completion bash");
  const std::string check = "bash -c 'source " + folder_ +
                            "/out; COMP_WORDS=(ampctl job sub); COMP_CWORD=2; _ampctl; test \"$COMPREPLY\" = submit'";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

}  // namespace
}  // namespace ampd::client
