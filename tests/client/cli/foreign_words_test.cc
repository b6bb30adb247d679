// Tests the answers to commands that users know from other programs. The golden file shows them all.
#include "client/cli/foreign_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ForeignWordsTest : public Ampctl {};

TEST_F(ForeignWordsTest, EachIsAnsweredWithACommandThatExists) {
  std::string all;
  std::map<std::string, std::string> helps;  // by command
  for (const ForeignWord& word : ForeignWords()) {
    SCOPED_TRACE(word.words);
    const Result result = Run(word.words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("error: ampctl"));
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("; to ", word.purpose, ": ampctl ", word.command, "\n")));
    absl::StrAppend(&all, "$ ampctl ", word.words, "\n", result.err);

    std::string command;
    std::vector<std::string> options;
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(word.command, ' '))) {
      if (part.starts_with('-')) {
        options.push_back(part);
      } else if (absl::ascii_islower(part.front())) {
        absl::StrAppend(&command, " ", part);
      }
    }
    if (!helps.contains(command)) {
      const Result help = Run(command + " --help");
      EXPECT_EQ(help.exit_code, 0) << help.err;
      helps[command] = help.out;
    }
    for (const std::string& option : options) {
      EXPECT_THAT(helps[command], HasSubstr(option)) << command;
    }
  }
  ExpectGolden("tests/golden/client/foreign_words.txt", all);
}

TEST_F(ForeignWordsTest, TheAnswerHasTheUsersOwnJobOrFile) {
  const struct {
    const char* line;
    const char* answer;
  } cases[] = {
      {"scancel j-abc", "error: ampctl has no command 'scancel'; to cancel a job: ampctl job cancel j-abc\n"},
      {"get job j-abc -o json", "error: ampctl has no command 'get'; to show a job: ampctl job show j-abc -o json\n"},
      {"-q describe resnet", "error: ampctl has no command 'describe'; to show a job: ampctl job show resnet\n"},
      {"apply -f dir/job.yaml",
       "error: ampctl has no command 'apply'; to submit a job: ampctl job submit -f dir/job.yaml\n"},
      {"sbatch job.yaml", "error: ampctl has no command 'sbatch'; to submit a job: ampctl job submit -f job.yaml\n"},
      {"job stop j-abc", "error: ampctl job has no command 'stop'; to cancel a job: ampctl job cancel j-abc\n"},
      {"worker cordon w1",
       "error: ampctl worker has no command 'cordon'; to take a worker out of service: ampctl worker drain w1\n"},
      {"delete job x", "error: ampctl has no command 'delete'; to delete a finished job: ampctl job delete x\n"},
      {"describe job/x", "error: ampctl has no command 'describe'; to show a job: ampctl job show x\n"},
      {"get jobs -o wide", "error: ampctl has no command 'get'; to list jobs: ampctl job list -o wide\n"},
      {"get -o wide jobs x", "error: ampctl has no command 'get'; to show a job: ampctl job show x -o wide\n"},
      {"get jobs -w", "error: ampctl has no command 'get'; to list jobs: ampctl job list --watch\n"},
      {"get nodes", "error: ampctl has no command 'get'; to list workers: ampctl worker list\n"},
      {"drain node/w1",
       "error: ampctl has no command 'drain'; to take a worker out of service: ampctl worker drain w1\n"},
      {"delete worker w1",
       "error: ampctl has no command 'delete'; to remove a lost worker from the list: ampctl worker remove w1\n"},
      {"top nodes", "error: ampctl has no command 'top'; to watch the workers: ampctl worker list --watch\n"},
      {"logs -f job/x --tail 20",
       "error: ampctl has no command 'logs'; to read a job's log: ampctl job logs x --tail 20 -f\n"},
      {"tail -f x", "error: ampctl has no command 'tail'; to follow a job's log: ampctl job logs -f x\n"},
      {"logs x --lines=5", "error: ampctl has no command 'logs'; to read a job's log: ampctl job logs x --tail 5\n"},
      {"scancel -u me", "error: ampctl has no command 'scancel'; to cancel a job: ampctl job cancel ID\n"},
      {"cancel x y", "error: ampctl has no command 'cancel'; to cancel a job: ampctl job cancel x y\n"},
      {"show x y", "error: ampctl has no command 'show'; to show a job: ampctl job show x\n"},
      {"diff x y", "error: ampctl has no command 'diff'; to compare finished jobs: ampctl compare x y\n"},
      {"scontrol show job 5", "error: ampctl has no command 'scontrol'; to show a job: ampctl job show 5\n"},
      {"scontrol update JobId=5 Priority=10",
       "error: ampctl has no command 'scontrol'; to change a job's priority: ampctl job update 5 --priority 10\n"},
      {"scontrol update NodeName=w1 State=drain",
       "error: ampctl has no command 'scontrol'; to take a worker out of service: ampctl worker drain w1\n"},
      {"priority x 10",
       "error: ampctl has no command 'priority'; to change a job's priority: ampctl job update x --priority 10\n"},
      {"run view 5", "error: ampctl has no command 'run'; to show a job: ampctl job show 5\n"},
      {"sbatch job.yaml --epochs 2",
       "error: ampctl has no command 'sbatch'; to submit a job: ampctl job submit -f job.yaml --set train.epochs=2\n"},
      {"get jobs --server 127.0.0.1:1",
       "error: ampctl has no command 'get'; to list jobs: ampctl job list --address 127.0.0.1:1\n"},
      {"jobs list -q", "error: ampctl has no command 'jobs'; did you mean: ampctl job list -q\n"},
      {"policies", "error: ampctl has no command 'policies'; did you mean: ampctl policy list\n"},
      {"jobs get x", "error: ampctl has no command 'jobs'; to show a job: ampctl job show x\n"},
      {"job help list", "error: ampctl job has no command 'help'; to see its help: ampctl help job list\n"},
      {"kill \"\\$(reboot)\"", "error: ampctl has no command 'kill'; to cancel a job: ampctl job cancel ID\n"},
      {"job submit job.yaml",
       "error: ampctl job submit needs --file FILE; with the file job.yaml: ampctl job submit -f job.yaml\n"
       "  try: ampctl job submit --help\n"},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_EQ(result.err, test.answer) << test.line;
  }
}

TEST_F(ForeignWordsTest, AnAliasOfAList_Works) {
  fake_.jobs.Add("n", v1::Job::QUEUED);
  for (const char* command : {"job ls", "worker ls", "context ls"}) {
    EXPECT_EQ(Run(command).exit_code, 0) << command;
  }
}

TEST_F(ForeignWordsTest, AnOptionOfOtherPrograms_IsAnsweredWithAmpctlsOwn) {
  const struct {
    const char* line;
    const char* option;
  } cases[] = {
      {"--server 127.0.0.1:1 job list", "--address"},
      {"job list --server 127.0.0.1:1", "--address"},
      {"job list --context lab", "--address"},
      {"job list --format json", "--output"},
      {"job list --json", "--output"},
      {"job list -l team=vision", "--filter"},
      {"job list -w", "--watch"},
      {"job submit --filename job.yaml", "--file"},
      {"job submit -f job.yaml --wait", "--follow"},
      {"job logs j-a --lines 20", "--tail"},
      {"job logs j-a -n 20", "--tail"},
  };
  Write("job.yaml", "name: x\n");
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("\n  did you mean '", test.option, "'?\n"))) << test.line;
  }
  EXPECT_EQ(OptionForForeign("--lines", {"--limit"}), "") << "only options that the command accepts";
}

TEST_F(ForeignWordsTest, AValueInTheWrongPlace_IsAnsweredWithTheRightOne) {
  Write("job.yaml", kGoodJob);
  const struct {
    const char* line;
    const char* answer;
  } cases[] = {
      {"job list --state RUNNING", "did you mean '--filter state=RUNNING'?\n"},
      {"job list --name=x", "did you mean '--filter name=x'?\n"},
      {"job list running", "did you mean '--filter state=running'?\n"},
      {"job list Completed", "did you mean '--filter state=succeeded'?\n"},
      {"job list --sort -age", "did you mean '--sort age,desc'?\n"},
      {"job list -o=json", "there is no output format '=json'; did you mean -o json?"},
      {"job list -o JSON", "there is no output format 'JSON'; did you mean -o json?"},
      {"job logs x --since 10", "did you mean 10m?\n"},
      {"artifact download x -o file", "did you mean 'ampctl artifact download x file'?\n"},
      {"data tokenize a --out b", "did you mean 'ampctl data tokenize a b'?\n"},
      {"checkpoint export ck --output b", "did you mean 'ampctl checkpoint export ck b'?\n"},
      {"-v", "did you mean '--version'?\n"},
      {"-V", "did you mean '--version'?\n"},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_THAT(result.err, HasSubstr(test.answer)) << test.line;
  }
}

// The answer is what makes the command work.
TEST_F(ForeignWordsTest, AnOptionOfSlurmOnSubmit_IsAnsweredWithAnOverrideThatIsAccepted) {
  Write("job.yaml", kGoodJob);
  for (const char* option :
       {"--priority 5", "--gpus 1", "--devices 1", "--nodelist w1", "-w w1", "--mem 4GiB", "--time 90m", "--epochs 2",
        "--steps 9", "--seed 7", "--batch-size 8", "--preset bf16", "--precision fp32", "--job-name y", "-J y"}) {
    const std::string error = Run(absl::StrCat("job submit -f job.yaml ", option)).err;
    const std::string begin = "did you mean '";
    ASSERT_THAT(error, HasSubstr(begin)) << option;
    const size_t start = error.find(begin) + begin.size();
    const std::string own = error.substr(start, error.find("'?", start) - start);
    const Result result = Run(absl::StrCat("job submit -q -f job.yaml ", own));
    EXPECT_EQ(result.exit_code, 0) << option << ": " << own << "\n" << result.err;
  }
}

TEST_F(ForeignWordsTest, HelpOnAVerbOrAPlural_IsThatOfTheCommand) {
  const std::pair<const char*, const char*> cases[] = {
      {"help submit", "job submit --help"},  {"help verify", "checkpoint verify --help"},
      {"help jobs", "job --help"},           {"help policies list", "policy list --help"},
      {"help exit-code", "help exit-codes"}, {"help exit codes", "help exit-codes"}};
  for (const auto& [line, same] : cases) {
    const Result result = Run(line);
    EXPECT_EQ(result.exit_code, 0) << line;
    EXPECT_EQ(result.out, Run(same).out) << line;
  }
}

TEST(ForeignWordAdvice, IsEmptyForOtherWords) {
  const CLI::App root;
  EXPECT_EQ(ForeignWordAdvice(root, "", {"frobnicate"}), "");
  EXPECT_EQ(ForeignWordAdvice(root, "job", {"squeue"}), "");
  EXPECT_EQ(ForeignWordAdvice(root, "", {}), "");
}

}  // namespace
}  // namespace ampd::client
