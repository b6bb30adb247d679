// Tests the answers to commands that users know from other programs. The golden file shows them all.
#include "client/cli/answers/foreign_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/shell_lines.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A build with a sanitizer types only every tenth line of a golden file. Each line starts a program, which takes ten
// times as long in such a build.
#if defined(AMPD_ASAN) || defined(AMPD_TSAN)
constexpr int kEvery = 10;
#else
constexpr int kEvery = 1;
#endif

class ForeignWordsTest : public Ampctl {
 protected:
  struct Case {
    const char* line;
    const char* answer;
  };
  void ExpectAnswers(const std::vector<Case>& cases);
};

// Replaces the placeholders FILE, YAML and SCRIPT of the table by names that look like a file, a job file and a script.
// The number in front of the job file is the value of an option, such as Slurm's --dependency.
std::string Typed(const std::string& text) {
  return absl::StrReplaceAll(text, {{" FILE", " x.pt2"}, {" YAML", " 1 job.yaml"}, {" SCRIPT", " train.py"}});
}

// Returns the command with the file that the user types for this entry.
std::string CommandWithTypedFile(const ForeignWord& word) {
  const bool names_job_file = absl::StrContains(word.words, " YAML");
  const bool names_file = absl::StrContains(word.words, " FILE");
  return names_job_file ? absl::StrReplaceAll(word.command, {{" FILE", " job.yaml"}})
         : names_file   ? Typed(word.command)
                        : word.command;
}

// Types one wording of each row. The other wordings of the row get the same answer, because the row is expanded to one
// entry for each wording (tested by ForeignWordList below).
TEST_F(ForeignWordsTest, EachRowIsAnsweredWithACommandThatExists) {
  std::string all;
  std::map<std::string, std::string> helps;  // by command
  std::string_view row;
  const char* command_of_row = nullptr;
  int num_rows = 0;
  for (const ForeignWord& word : ForeignWords()) {
    if (row == word.row && command_of_row == word.command) {
      continue;
    }
    row = word.row;
    command_of_row = word.command;
    if (num_rows++ % kEvery != 0) {
      continue;
    }
    SCOPED_TRACE(word.words);
    const Result result = Run(Typed(word.words));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("error: ampctl"));
    const std::string shown = absl::StrCat("$ ampctl ", word.row, "\n", result.err);
    all += all.ends_with(shown) ? "" : shown;  // Several entries may have the same words.
    if (*word.command == '\0') {
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat("; ", word.purpose)));
      continue;
    }
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("; to ", word.purpose, ": ampctl ", CommandWithTypedFile(word))));
    std::string command;
    std::vector<std::string> options;
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(word.command, ' '))) {
      if (part.starts_with('-')) {
        options.push_back(part);
      } else if (absl::ascii_islower(part.front()) && !absl::StrContains(part, "=") && part != "yaml") {
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
  if (kEvery == 1) {
    ExpectGolden("tests/golden/client/foreign_words.txt", all);
  }
}

// Types the command lines of kubectl, gh, Slurm, docker and other programs that are in the golden file, and compares
// the answers with that file. To add a line, write "$ ampctl WORDS" into the file and run the test with
// AMPD_UPDATE_GOLDEN=1.
TEST_F(ForeignWordsTest, EveryCommandOfOtherPrograms_IsAnswered) {
  const std::string golden = *ReadFile(AMPD_SOURCE_DIR "/tests/golden/client/other_programs.txt", 1 << 20);
  std::string script;
  std::string expected;  // The part of the golden file that is typed.
  bool is_typed = true;
  int num_lines = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(absl::StripSuffix(golden, "\n"), '\n'))) {
    const bool is_command = line.starts_with("$ ampctl ");
    if (line.starts_with("# ")) {
      absl::StrAppend(&script, "echo '", line, "'\n");
      is_typed = true;
    } else if (is_command) {
      is_typed = num_lines++ % kEvery == 0;
    }
    absl::StrAppend(&expected, is_typed ? line + "\n" : "");
    if (!is_command || !is_typed) {
      continue;
    }
    absl::StrAppend(&script, "echo '", line, "'\n", AMPD_BIN_DIR "/ampctl");
    for (const absl::string_view word : absl::StrSplit(line.substr(9), ' ')) {
      absl::StrAppend(&script, " '", word, "'");
    }
    absl::StrAppend(&script, " </dev/null 2>&1\n[ $? = 2 ] || echo 'EXIT CODE IS NOT 2'\n");
  }
  EXPECT_GT(num_lines, 800);
  Write("lines.sh", script);
  const std::string result = folder_ + "/answers";
  ASSERT_EQ(std::system(absl::StrCat("env AMPD_ADDRESS=no/where LC_ALL=C sh ", folder_, "/lines.sh >", result).c_str()),
            0);
  const std::string answers = *ReadFile(result, 1 << 20);
  EXPECT_FALSE(absl::StrContains(answers, "EXIT CODE"));
  EXPECT_FALSE(absl::StrContains(answers, "=VALUE --")) << "the value of an option was lost";
  if (kEvery == 1) {
    ExpectGolden("tests/golden/client/other_programs.txt", answers);
  } else {
    EXPECT_EQ(answers, expected);
  }
}

TEST_F(ForeignWordsTest, TheAnswerHasTheUsersOwnJobOrFile) {
  const struct {
    const char* line;
    const char* answer;
  } cases[] = {
      {"scancel j-abc", "error: ampctl has no command 'scancel'; to cancel a job: ampctl job cancel j-abc\n"},
      {"get job j-abc -o json", "error: ampctl has no command 'get'; to show a job: ampctl job show j-abc -o json\n"},
      {"-q describe resnet", "error: ampctl has no command 'describe'; to show a job: ampctl job show resnet -q\n"},
      {"apply -f dir/job.yaml",
       "error: ampctl has no command 'apply'; to submit a job: ampctl job submit -f dir/job.yaml\n"},
      {"sbatch job.yaml", "error: ampctl has no command 'sbatch'; to submit a job: ampctl job submit -f job.yaml\n"},
      {"job stop j-abc", "error: ampctl job has no command 'stop'; to cancel a job: ampctl job cancel j-abc\n"},
      {"worker cordon w1",
       "error: ampctl worker has no command 'cordon'; to take a worker out of service (its jobs write a checkpoint, "
       "and continue on other "
       "workers): ampctl worker drain w1\n"},
      {"delete job x",
       "error: ampctl has no command 'delete'; to cancel a job that has not ended: ampctl job cancel x; to delete a "
       "job "
       "that has ended: ampctl job delete x\n"},
      {"describe job/x", "error: ampctl has no command 'describe'; to show a job: ampctl job show x\n"},
      {"get jobs -o wide", "error: ampctl has no command 'get'; to list jobs: ampctl job list -o wide\n"},
      {"get -o wide jobs x", "error: ampctl has no command 'get'; to show a job: ampctl job show x -o wide\n"},
      {"get jobs -w", "error: ampctl has no command 'get'; to watch the list of jobs: ampctl job list --watch\n"},
      {"get job x -w", "error: ampctl has no command 'get'; to watch a job: ampctl job watch x\n"},
      {"get models",
       "error: ampctl has no command 'get'; to see which models a job file can name: ampctl init --help\n"},
      {"apply -f -", "error: ampctl has no command 'apply'; to submit a job: ampctl job submit -f -\n"},
      {"apply -f t.yaml --dry-run=server",
       "error: ampctl has no command 'apply'; to submit a job: ampctl job submit -f t.yaml --dry-run\n"},
      {"scale job x --replicas=2",
       "error: ampctl has no command 'scale'; a job runs on one device of one worker; to use several devices, submit "
       "several jobs\n"},
      {"explain job",
       "error: ampctl has no command 'explain'; to see the fields of a job file: ampctl help job-file\n"},
      {"explain job x", "error: ampctl has no command 'explain'; to see why a job waits: ampctl job explain x\n"},
      {"auth list", "error: ampctl auth has no command 'list'; to list the tokens: ampctl auth token list\n"},
      {"auth create ci",
       "error: ampctl auth has no command 'create'; to create a token: ampctl auth token create ci --role ROLE\n"},
      {"token create ci",
       "error: ampctl has no command 'token'; to create a token: ampctl auth token create ci --role ROLE\n"},
      {"tokens", "error: ampctl has no command 'tokens'; to list the tokens: ampctl auth token list\n"},
      {"squeue -l",
       "error: ampctl has no command 'squeue'; to list jobs: ampctl job list -o wide --filter 'state!=succeeded AND "
       "state!=failed AND state!=cancelled'\n"},
      {"sacct -S 2026-01-31",
       "error: ampctl has no command 'sacct'; to list jobs: ampctl job list; -S is left out: lists have no filter by "
       "time; -o json has the times of each job\n"},
      {"scontrol show jobs", "error: ampctl has no command 'scontrol'; to list jobs: ampctl job list\n"},
      {"sbatch --time=10 --mem 4G job.yaml",
       "error: ampctl has no command 'sbatch'; to submit a job: ampctl job submit -f job.yaml --set deadline=10m --set "
       "resources.memory_bytes=4GiB\n"},
      {"get nodes", "error: ampctl has no command 'get'; to list workers: ampctl worker list\n"},
      {"drain node/w1", "error: ampctl has no command 'drain'; did you mean: ampctl worker drain w1\n"},
      {"delete worker w1",
       "error: ampctl has no command 'delete'; to remove a lost worker from the list: ampctl worker remove w1\n"},
      {"top nodes", "error: ampctl has no command 'top'; to watch the workers: ampctl worker list --watch\n"},
      {"logs -f job/x --tail 20",
       "error: ampctl has no command 'logs'; did you mean: ampctl job logs x --tail 20 -f\n"},
      {"tail -f x", "error: ampctl has no command 'tail'; to follow a job's log: ampctl job logs -f x\n"},
      {"logs x --lines=5", "error: ampctl has no command 'logs'; to read a job's log: ampctl job logs x --tail 5\n"},
      {"scancel -u me",
       "error: ampctl has no command 'scancel'; to cancel all such jobs: ampctl job list -q --filter 'owner=*:me AND "
       "state!=succeeded AND state!=failed AND state!=cancelled' | xargs -r ampctl job cancel\n"},
      {"scancel -u me -t PD",
       "error: ampctl has no command 'scancel'; to cancel all such jobs: ampctl job list -q --filter 'owner=*:me AND "
       "state=queued' | xargs -r ampctl job cancel\n"},
      {"squeue -t all", "error: ampctl has no command 'squeue'; to list jobs: ampctl job list\n"},
      {"bjobs -a", "error: ampctl has no command 'bjobs'; to list jobs: ampctl job list\n"},
      {"sacct", "error: ampctl has no command 'sacct'; to list jobs: ampctl job list\n"},
      {"sprio -j 5", "error: ampctl has no command 'sprio'; to see the priority of a job: ampctl job show 5\n"},
      {"sprio",
       "error: ampctl has no command 'sprio'; to list the jobs that wait, by their priority: ampctl job list -o wide "
       "--sort priority,desc --filter state=queued\n"},
      {"workflow view train.yml",
       "error: ampctl has no command 'workflow'; to check a job file without submitting it: ampctl job submit "
       "--dry-run -f train.yml\n"},
      {"workflow list",
       "error: ampctl has no command 'workflow'; to list jobs (ampd has no workflows): ampctl job list\n"},
      {"get priorityclasses",
       "error: ampctl has no command 'get'; to list the jobs by their priority, a number from -1000 to 1000 (ampd has "
       "no priority classes): ampctl job list -o wide --sort priority,desc\n"},
      {"workflow view x", "error: ampctl has no command 'workflow'; to show a job: ampctl job show x\n"},
      {"search code lenet",
       "error: ampctl has no command 'search'; to find jobs by a part of their name: ampctl job list --filter "
       "'name=*lenet*'\n"},
      {"run view lenet --exit-status",
       "error: ampctl has no command 'run'; to wait until a job ends (the exit code says how it ended): ampctl job "
       "wait "
       "lenet\n"},
      {"run view lenet --web",
       "error: ampctl has no command 'run'; to watch a job (ampd has no web page): ampctl job watch lenet\n"},
      {"port-forward pod/lenet 80",
       "error: ampctl has no command 'port-forward'; to see what a job does (jobs listen on no ports): ampctl job "
       "watch "
       "lenet\n"},
      {"run list --branch main --event push --created 2026-01-01",
       "error: ampctl has no command 'run'; to list jobs: ampctl job list; --branch and --event are left out: ampd "
       "knows no branches, commits or triggers; --created is left out: lists have no filter by time; -o json has the "
       "times of each job\n"},
      {"sbatch -N 2 -n 8 job.yaml",
       "error: ampctl has no command 'sbatch'; to submit a job: ampctl job submit -f job.yaml; -N and -n are left out: "
       "a job runs on one device of one worker\n"},
      {"sbatch --array=0-3 job.yaml",
       "error: ampctl has no command 'sbatch'; to submit the job once for each number, here as its seed (there are no "
       "job arrays): for i in $(seq 0 3); do ampctl job submit -f job.yaml --set train.seed=$i; done\n"},
      {"sbatch -a 0-3 job.yaml",
       "error: ampctl has no command 'sbatch'; to submit the job once for each number, here as its seed (there are no "
       "job arrays): for i in $(seq 0 3); do ampctl job submit -f job.yaml --set train.seed=$i; done\n"},
      {"qsub -hold_jid 5 job.yaml",
       "error: ampctl has no command 'qsub'; to submit a job after another one (a job can't wait for another by "
       "itself): ampctl job wait 5; ampctl job submit -f job.yaml\n"},
      {"sbatch -d afterok:5 job.yaml",
       "error: ampctl has no command 'sbatch'; to submit a job after another one (a job can't wait for another by "
       "itself): ampctl job wait 5 && ampctl job submit -f job.yaml\n"},
      {"scontrol update NodeName=w1 State=DRAIN Reason=fix",
       "error: ampctl has no command 'scontrol'; to take a worker out of service (its jobs write a checkpoint, and "
       "continue on other workers): ampctl worker drain w1; Reason is left out: ampd stores no reason why a worker is "
       "drained\n"},
      {"create job test --image=busybox",
       "error: ampctl has no command 'create'; jobs have no container images: a job file names a model and data "
       "(ampctl "
       "help job-file)\n"},
      {"completion -s bash",
       "error: ampctl completion has no option '-s'\n  the shell is an argument without an option: ampctl completion "
       "bash\n  try: ampctl completion --help\n"},
      {"squeue -u me -t PD",
       "error: ampctl has no command 'squeue'; to list jobs: ampctl job list --filter 'owner=*:me AND state=queued'\n"},
      {"run list --status failure",
       "error: ampctl has no command 'run'; to list jobs: ampctl job list --filter state=failed\n"},
      {"get jobs -l a=b", "error: ampctl has no command 'get'; to list jobs: ampctl job list --filter labels.a=b\n"},
      {"get pods -n x", "error: ampctl has no command 'get'; to list jobs: ampctl job list --tenant x\n"},
      {"-n default get pods", "error: ampctl has no command 'get'; to list jobs: ampctl job list --tenant default\n"},
      {"get pods -n 5", "error: ampctl has no command 'get'; to list jobs: ampctl job list --limit 5\n"},
      {"patch job clothes",
       "error: ampctl has no command 'patch'; to change a job's priority (nothing else can be changed after it is "
       "submitted): ampctl job update clothes --priority N\n"},
      {"create token x",
       "error: ampctl has no command 'create'; to create a token: ampctl auth token create x --role ROLE\n"},
      {"get svc",
       "error: ampctl has no command 'get'; to see the jobs (ampd runs no services, only training jobs): ampctl job "
       "list\n"},
      {"secret list",
       "error: ampctl has no command 'secret'; jobs have no secrets; a token for the server is made with: ampctl auth "
       "token create NAME --role ROLE\n"},
      {"checkpoint tiny",
       "error: ampctl checkpoint has no command 'tiny'; its commands are list, show, verify, download, export, delete\n"
       "  to list a job's checkpoints: ampctl checkpoint list tiny\n  try: ampctl checkpoint --help\n"},
      {"auth token",
       "error: ampctl auth token needs one of these commands: create, list, revoke\n  to list the tokens: ampctl auth "
       "token list; a token's text is shown only by ampctl auth token create\n  try: ampctl auth token --help\n"},
      {"checkpoint rm clothes@200",
       "error: ampctl checkpoint has no command 'rm'; did you mean: ampctl checkpoint delete clothes@200\n"},
      {"delete checkpoint clothes 200",
       "error: ampctl has no command 'delete'; did you mean: ampctl checkpoint delete clothes 200\n"},
      {"diff job.yaml",
       "error: ampctl has no command 'diff'; to check a job file without submitting it: ampctl job submit --dry-run -f "
       "job.yaml\n"},
      {"explain job.spec",
       "error: ampctl has no command 'explain'; to see the fields of a job file: ampctl help job-file\n"},
      {"logs x --previous",
       "error: ampctl has no command 'logs'; to read the log of an earlier attempt: ampctl job logs --attempt N x\n"},
      {"auth status",
       "error: ampctl auth has no command 'status'; to see your name and roles on the server: ampctl auth whoami\n"},
      {"job update x --set a=b",
       "error: ampctl job update has no option '--set'\n  after a job is submitted, only its priority can be changed; "
       "to run it with other fields: ampctl job submit -f FILE --set PATH=VALUE\n  try: ampctl job update --help\n"},
      {"job scale x --replicas 2",
       "error: ampctl job scale has no option '--replicas'\n  ampctl job scale sets the loss scale of a job, not its "
       "number of devices: every job runs on one device. To run a job once more: ampctl job clone x\n  try: ampctl job "
       "scale --help\n"},
      {"dev --listen 127.0.0.1:0",
       "error: ampctl dev has no option '--listen'\n  the server of ampctl dev listens on this machine only; to choose "
       "its port: ampctl dev --port N (0: a free one)\n  try: ampctl dev --help\n"},
      {"checkpoint delete tiny 10 20",
       "error: ampctl checkpoint delete takes one checkpoint at a time: ampctl checkpoint delete tiny@10 && ampctl "
       "checkpoint delete tiny@20\n  try: ampctl checkpoint delete --help\n"},
      {"checkpoint delete tiny 10 x",
       "error: ampctl checkpoint delete takes only JOB@STEP [STEP]; 'x' is one word too many\n  try: ampctl checkpoint "
       "delete --help\n"},
      {"squeue --start",
       "error: ampctl has no command 'squeue'; to see why a job waits (ampd predicts no start times): ampctl job "
       "explain "
       "ID\n"},
      {"scontrol requeue x",
       "error: ampctl has no command 'scontrol'; to resume a failed or cancelled job from its last checkpoint: ampctl "
       "job retry x; to interrupt a running job, pause it and then resume it: ampctl job pause x\n"},
      {"job retry x --set a=b",
       "error: ampctl job retry has no option '--set'\n  a retry continues the same job; to change a field: ampctl job "
       "submit -f FILE --set PATH=VALUE\n  try: ampctl job retry --help\n"},
      {"-vv job list",
       "error: ampctl job list has no option '-v'\n  leave this option out: ampctl has no verbose output; to see the "
       "version: ampctl version\n  try: ampctl job list --help\n"},
      {"cancel x y", "error: ampctl has no command 'cancel'; to cancel a job: ampctl job cancel x y\n"},
      {"show x y", "error: ampctl has no command 'show'; for each of them: ampctl job show x && ampctl job show y\n"},
      {"diff x y", "error: ampctl has no command 'diff'; to compare jobs that have ended: ampctl compare x y\n"},
      {"scontrol show job 5", "error: ampctl has no command 'scontrol'; to show a job: ampctl job show 5\n"},
      {"scontrol update JobId=5 Priority=10",
       "error: ampctl has no command 'scontrol'; to change a job's priority: ampctl job update 5 --priority 10\n"},
      {"scontrol update NodeName=w1 State=drain",
       "error: ampctl has no command 'scontrol'; to take a worker out of service (its jobs write a checkpoint, and "
       "continue on other workers): "
       "ampctl worker drain w1\n"},
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
      {"get job/x --for=condition=complete", "error: ampctl has no command 'get'; to show a job: ampctl job show x\n"},
      {"wait --for=condition=complete job/x", "error: ampctl has no command 'wait'; did you mean: ampctl job wait x\n"},
      {"kubectl get pods", "error: ampctl has no command 'kubectl'; to list jobs: ampctl job list\n"},
      {"docker ps -a", "error: ampctl has no command 'docker'; to list jobs: ampctl job list\n"},
      {"docker ps",
       "error: ampctl has no command 'docker'; to list jobs: ampctl job list --filter 'state!=succeeded AND "
       "state!=failed AND state!=cancelled'\n"},
      {"gh run list", "error: ampctl has no command 'gh'; to list jobs: ampctl job list\n"},
      {"sacct --format=JobID,State",
       "error: ampctl has no command 'sacct'; to list jobs: ampctl job list; --format is left out: columns cannot be "
       "chosen; -o wide has more, and -o json has everything\n"},
      {"sacct --format=JobID", "error: ampctl has no command 'sacct'; to list jobs: ampctl job list -q\n"},
      {"sacct -j 5", "error: ampctl has no command 'sacct'; to show a job: ampctl job show 5\n"},
      {"squeue --jobs=5", "error: ampctl has no command 'squeue'; to show a job: ampctl job show 5\n"},
      {"scontrol show job=5", "error: ampctl has no command 'scontrol'; to show a job: ampctl job show 5\n"},
      {"run view 5 --log", "error: ampctl has no command 'run'; to read a job's log: ampctl job logs 5\n"},
      {"delete -f job.yaml",
       "error: ampctl has no command 'delete'; to cancel a job that has not ended: ampctl job cancel ID; to delete a "
       "job that has ended: ampctl job delete ID; -f is left out: give the job's ID, or the value of the field `name` "
       "in the "
       "job file\n"},
      {"diff -f job.yaml",
       "error: ampctl has no command 'diff'; to check a job file without submitting it: ampctl job "
       "submit --dry-run -f job.yaml\n"},
      {"start x",
       "error: ampctl has no command 'start'; to resume a paused job: ampctl job resume x; to resume a failed or "
       "cancelled job from its last checkpoint: ampctl job retry x\n"},
      {"start job.yaml", "error: ampctl has no command 'start'; to submit a job: ampctl job submit -f job.yaml\n"},
      {"job start x",
       "error: ampctl job has no command 'start'; to resume a paused job: ampctl job resume x; to resume a failed or "
       "cancelled job from its last checkpoint: ampctl job retry x\n"},
      {"upload data/new.npz",
       "error: ampctl has no command 'upload'; to upload a file to the server: ampctl artifact upload data/new.npz\n"},
      {"top x", "error: ampctl has no command 'top'; to watch a job: ampctl job watch x\n"},
      {"download x",
       "error: ampctl has no command 'download'; to list the files that a job has made: ampctl artifact list --job x; "
       "to download a checkpoint: ampctl checkpoint download x\n"},
      {"download best.png",
       "error: ampctl has no command 'download'; to download a file from the server: ampctl artifact download "
       "best.png\n"},
      {"cp x:/out .",
       "error: ampctl has no command 'cp'; to list the files that a job has made: ampctl artifact list --job x; to "
       "download one of them: ampctl artifact download NAME FILE; to download a checkpoint: ampctl checkpoint download "
       "x; x:/out and . are left out: a job has no file system of its own; to download a file, give its name in the "
       "list, and then the file to write\n"},
      {"job submit job.yaml",
       "error: ampctl job submit needs --file FILE; did you mean: ampctl job submit -f job.yaml\n"
       "  try: ampctl job submit --help\n"},
      {"job predict x -f data.yaml",
       "error: ampctl job predict needs --checkpoint JOB[@STEP|@best|@newest]; did you mean: ampctl job predict "
       "--checkpoint x -f "
       "data.yaml\n  try: ampctl job predict --help\n"},
      {"job predict --checkpoint x@best data.yaml",
       "error: ampctl job predict needs --file FILE; did you mean: ampctl job predict -f data.yaml --checkpoint "
       "x@best\n  try: ampctl job predict --help\n"},
      {"job predict x data.yaml",
       "error: ampctl job predict needs --checkpoint JOB[@STEP|@best|@newest] and --file FILE; did you mean: ampctl "
       "job predict "
       "--checkpoint x -f data.yaml\n  try: ampctl job predict --help\n"},
      {"job update x 5",
       "error: ampctl job update needs --priority N; did you mean: ampctl job update --priority 5 x\n  try: ampctl "
       "job update --help\n"},
      {"checkpoint download",
       "error: ampctl checkpoint download needs JOB[@STEP|@best|@newest]\n  try: ampctl checkpoint download --help\n"},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_EQ(result.err, test.answer) << test.line;
  }
}

// Types a line of another program for each case, and compares the answer behind "has no command".
void ForeignWordsTest::ExpectAnswers(const std::vector<Case>& cases) {
  for (const auto& [line, answer] : cases) {
    EXPECT_THAT(Run(line).err, EndsWith(absl::StrCat("'; ", answer, "\n"))) << line;
  }
}

TEST_F(ForeignWordsTest, AnOptionThatIsLeftOut_IsNamed) {
  ExpectAnswers({
      {"get pods --watch=false --show-kind", "to list jobs: ampctl job list; --show-kind is left out"},
      {"get pods -A -lapp=x -oyaml", "to list jobs: ampctl job list --tenant '*' --filter labels.app=x -o yaml"},
      {"sbatch --foo --bar=x -N2 job.yaml",
       "to submit a job: ampctl job submit -f job.yaml; -N is left out: a job runs on one device of one "
       "worker; --foo and --bar are left out"},
      {"sbatch -N1 -pgpu job.yaml",
       "to submit a job: ampctl job submit -f job.yaml; -p is left out: the server has one queue, "
       "without partitions and classes"},
      {"squeue -uann -tPD -h", "to list jobs: ampctl job list --no-headers --filter 'owner=*:ann AND state=queued'"},
      {"sinfo -N -l", "to list workers: ampctl worker list -o wide"},
      {"squeue -j 5", "to show a job: ampctl job show 5"},
      {"sprio -w",
       "to list the jobs that wait, by their priority: ampctl job list -o wide --sort priority,desc "
       "--filter state=queued; -w is left out: a job's priority is one number"},
      {"run view 5 --exit-status", "to wait until a job ends (the exit code says how it ended): ampctl job wait 5"},
      {"logs tiny --timestamps -v", "to read a job's log: ampctl job logs tiny"},
      {"apply -fjob.yaml --server-side", "to submit a job: ampctl job submit -f job.yaml"},
      {"gh run list -L5 -bmain",
       "to list jobs: ampctl job list --limit 5; -b is left out: ampd knows no branches, commits or triggers"},
      {"kubectl -n vision get pods --dry-run=none", "to list jobs: ampctl job list --tenant vision"},
      {"watch -n 5 squeue -uann --foo",
       "to list jobs: ampctl job list --watch --filter 'owner=*:ann AND state!=succeeded AND "
       "state!=failed AND state!=cancelled'; --foo is left out"},
      {"docker rm -f x --volumes",
       "to cancel a job that has not ended: ampctl job cancel x; to delete a job that has ended: ampctl "
       "job delete x; --volumes is left out"},
      {"get -wA pods", "to list jobs: ampctl job list; -wA is left out"},
      {"exec tiny -- bash --foo", "to see what a job does (ampctl runs no commands in it): ampctl job watch tiny"},
  });
}

TEST_F(ForeignWordsTest, AnOptionThatIsLeftOut_IsNamedWithTheReason) {
  ExpectAnswers({
      {"get nodes -l gpu=a100", "to list workers: ampctl worker list; -l is left out: workers have no labels"},
      {"sacct -P -j 5",
       "to show a job: ampctl job show 5; -P is left out: ampctl job show prints no CSV; -o json has everything"},
      {"sacct -P", "to list jobs: ampctl job list -o csv"},
      {"sacct -r gpu",
       "to list jobs: ampctl job list; -r is left out: the server has one queue, without partitions and classes"},
      {"run list -w train.yml",
       "to list jobs: ampctl job list; -w is left out: a list has a filter for the names of jobs (--filter name=NAME), "
       "not for their files"},
      {"run list -w train", "to list jobs: ampctl job list --filter name=train"},
      {"sbatch -x w2 -w w1 job.yaml",
       "to submit a job: ampctl job submit -f job.yaml --set resources.worker=w1; -x is left out: workers can't be "
       "excluded; to name the worker on which the job runs: --set resources.worker=NAME"},
      {"sbatch --deadline=2026-12-01 job.yaml",
       "to submit a job: ampctl job submit -f job.yaml; --deadline is left out: the field deadline takes a duration: "
       "--set deadline=2h"},
      {"get events --sort-by=.lastTimestamp",
       "to list a job's events: ampctl job events ID; --sort-by is left out: ampctl job events prints them in the "
       "order "
       "of time"},
      {"scontrol update JobId=5 TimeLimit=+30",
       "to change more than a job's priority, submit its file again: ampctl job submit -f FILE; to cancel the old job: "
       "ampctl job cancel 5; TimeLimit is left out: the field deadline takes a duration: --set deadline=2h"},
      {"get pod x -o csv",
       "to show a job: ampctl job show x; -o is left out: the command has other formats, which its --help names"},
      {"drain w1 --grace-period=60",
       "to take a worker out of service (its jobs write a checkpoint, and continue on other workers): ampctl worker "
       "drain w1; --grace-period is left out: before a job moves to another worker, it writes a checkpoint, however "
       "long that takes"},
      {"scontrol update JobId=5 TimeLimit=60 Partition=gpu",
       "to change more than a job's priority, submit its file again: ampctl job submit -f FILE --set deadline=60m; to "
       "cancel the old job: ampctl job cancel 5; Partition is left out: the server has one queue, without partitions "
       "and classes"},
  });
}

TEST_F(ForeignWordsTest, ANameOrValueOfTheLine_IsInTheAnswer) {
  ExpectAnswers({
      {"describe node w1",
       "to list workers with their devices: ampctl worker list -o wide; to list the jobs on this worker: ampctl job "
       "list --filter worker=w1"},
      {"describe node w1 w2",
       "to list workers with their devices: ampctl worker list -o wide; to list the jobs on this worker: ampctl job "
       "list --filter 'worker=w1 OR worker=w2'"},
      {"get events --field-selector involvedObject.name=x", "to list a job's events: ampctl job events x"},
      {"config rename-context lab prod",
       "to rename a server, add it under the new name and remove the old one: ampctl context add prod ADDRESS && "
       "ampctl "
       "context remove lab"},
      {"workflow run job.yaml -f lr=0.1 -F epochs=3",
       "to submit a job and watch it: ampctl job submit --follow -f job.yaml --set "
       "optimizer.OPTIMIZER.learning_rate=0.1 "
       "--set train.epochs=3"},
      {"release upload v1.0 model.bin",
       "to upload a model to the server (ampd has no releases): ampctl artifact upload model.bin"},
      {"auth status --hostname lab", "to see your name and roles on the server: ampctl auth whoami --address lab:PORT"},
      {"auth login -h lab -p ssh",
       "to log in to a server: ampctl login NAME lab:PORT; -p is left out: ampctl login asks only for a token, which "
       "has "
       "the roles with which it was made"},
      {"srun -N 1 --jobid=7 nvidia-smi", "to see what a job does (ampctl runs no commands in it): ampctl job watch 7"},
      {"srun --gres=gpu:1 python train.py --lr 1",
       "to write a job file to start from (ampd trains from job files, not scripts): ampctl init; to submit it then: "
       "ampctl job submit -f job.yaml --set resources.kind=GPU"},
      {"scontrol update TimeLimit=1:00:00 JobName=y JobId=5",
       "to change more than a job's priority, submit its file again: ampctl job submit -f FILE --set deadline=1h "
       "--name "
       "y; to cancel the old job: ampctl job cancel 5"},
  });
}

TEST_F(ForeignWordsTest, SeveralCallsInAShell_AreOneLine) {
  const std::string after = "to submit a job after another one (a job can't wait for another by itself): ";
  const std::string array = "to submit the job once for each number, here as its seed (there are no job arrays): ";
  const std::pair<const char*, std::string> cases[] = {
      {"sbatch -d afterok:5:6 -J x job.yaml", after + "ampctl job wait 5 6 && ampctl job submit -f job.yaml --name x"},
      {"sbatch --dependency=afterany:5 -M lab job.yaml",
       after + "ampctl job wait --address lab 5; ampctl job submit -f job.yaml --address lab"},
      {"sbatch -d afternotok:5:6 job.yaml",
       after + "ampctl job wait 5 || ampctl job wait 6 || ampctl job submit -f job.yaml"},
      {"sbatch -d after:5+3 job.yaml",
       after + "ampctl job wait --for RUNNING 5 && sleep 3m && ampctl job submit -f job.yaml"},
      {"sbatch -d afterok:5,afterany:6 job.yaml",
       after + "ampctl job wait 6; ampctl job wait 5 && ampctl job submit -f job.yaml"},
      {"sbatch -d singleton -J x job.yaml", after + "ampctl job wait x; ampctl job submit -f job.yaml --name x"},
      {"qsub -W depend=afterok:5 job.yaml", after + "ampctl job wait 5 && ampctl job submit -f job.yaml"},
      {"bsub -w 'done(5)' job.yaml", after + "ampctl job wait 5 && ampctl job submit -f job.yaml"},
      {"sbatch --array=1,4-8:2%2 -J x job.yaml",
       array +
           "for i in 1 $(seq 4 2 8); do ampctl job submit -f job.yaml --set train.seed=$i --name x; done; %2 is left "
           "out: the number of free workers decides how many jobs run at once"},
      {"sbatch -a 0-1 -d afterok:5 job.yaml",
       array + "ampctl job wait 5 && for i in $(seq 0 1); do ampctl job submit -f job.yaml --set train.seed=$i; done"},
      {"apply -f dir/ -n vision",
       "to submit a job: for f in dir/*.yaml; do ampctl job submit -f \"$f\" --tenant vision; done"},
      {"apply -f a.yaml -f dir/", "to submit a job: for f in a.yaml dir/*.yaml; do ampctl job submit -f \"$f\"; done"},
      {"kubectl apply -f dir/ -R -n vision",
       "to submit a job: for f in $(find dir/ -name '*.yaml'); do ampctl job submit -f \"$f\" --tenant vision; done"},
  };
  for (const auto& [line, answer] : cases) {
    EXPECT_THAT(Run(line).err, EndsWith(absl::StrCat("'; ", answer, "\n"))) << line;
  }
}

TEST_F(ForeignWordsTest, AnAnswerThatEndsOrDeletes_DoesNoMoreThanTheUserMeant) {
  ExpectAnswers({
      {"kubectl delete pod tiny --dry-run=client",
       "ampctl job cancel and ampctl job delete have no --dry-run; to see it: ampctl job show tiny"},
      {"kubectl delete pod tiny --dry-run=none",
       "to cancel a job that has not ended: ampctl job cancel tiny; to delete a job that has ended: "
       "ampctl job delete tiny"},
      {"kubectl delete pods -l app=x --dry-run=server -n vision",
       "ampctl job cancel and ampctl job delete have no --dry-run; to list the jobs that it would "
       "cancel: ampctl job list --filter 'labels.app=x AND state!=succeeded AND state!=failed AND "
       "state!=cancelled' --tenant vision; to list the jobs that it would delete: ampctl job list "
       "--filter 'labels.app=x AND (state=succeeded OR state=failed OR state=cancelled)' --tenant vision"},
      {"checkpoint rm x@200 --dry-run",
       "ampctl checkpoint delete has no --dry-run; to see it: ampctl checkpoint list x"},
      {"token delete ci --dry-run", "ampctl auth token revoke has no --dry-run; to see it: ampctl auth token list"},
      {"drain w1 --dry-run=client", "ampctl worker drain has no --dry-run; to see it: ampctl worker list"},
      {"scontrol update JobId=5 Nice=100",
       "to change a job's priority: ampctl job update 5 --priority N; Nice is left out: in ampd, jobs with a higher "
       "priority start first, and a priority may be negative"},
      {"scontrol update JobId=5 Partition=gpu Account=lab",
       "to change a job's priority (nothing else can be changed after it is submitted): ampctl job update 5 --priority "
       "N; Partition is left out: the server has one queue, without partitions and classes; Account "
       "is left out: ampd has no accounts to charge; its groups of users are tenants (--tenant NAME)"},
      {"scancel -i 5 6 -M prod",
       "ampctl job cancel has no -i; to see them: ampctl job show 5 --address prod && ampctl job show 6 "
       "--address prod"},
      {"delete pods -lapp=x -nvision --context=prod",
       "to cancel all such jobs: ampctl job list -q --filter 'labels.app=x AND state!=succeeded AND "
       "state!=failed AND state!=cancelled' --tenant vision --address prod | xargs -r ampctl job cancel "
       "--address prod --tenant vision; to delete all such jobs: ampctl job list -q --filter "
       "'labels.app=x AND (state=succeeded OR state=failed OR state=cancelled)' --tenant vision "
       "--address prod | xargs -r ampctl job delete --address prod --tenant vision -y"},
      {"delete pods --all -n vision --cluster prod",
       "to cancel all jobs that have not ended: ampctl job list -q --address prod --tenant vision "
       "--filter 'state!=succeeded AND state!=failed AND state!=cancelled' | xargs -r ampctl job cancel "
       "--address prod --tenant vision; to delete all jobs that have ended: ampctl job list -q "
       "--address prod --tenant vision --filter 'state=succeeded OR state=failed OR state=cancelled' | "
       "xargs -r ampctl job delete --address prod --tenant vision -y"},
      {"delete pods --all -l app=x", "to see these jobs: ampctl job list --filter labels.app=x; --all is left out"},
      {"delete pod x -n X", "to see these jobs: ampctl job list --filter 'id=x OR name=x'; -n is left out"},
      {"scancel -tPD 5", "to see these jobs: ampctl job list --filter 'state=queued AND (id=5 OR name=5)'"},
      {"scancel -u ann 5 6",
       "to see these jobs: ampctl job list --filter 'owner=*:ann AND (id=5 OR name=5 OR id=6 OR name=6)'"},
      {"scancel -p gpu -u ann",
       "to see these jobs: ampctl job list --filter 'owner=*:ann'; -p is left out: the server has one "
       "queue, without partitions and classes"},
      {"scancel -R resv 5", "to see these jobs: ampctl job list --filter 'id=5 OR name=5'; -R is left out"},
      {"delete pods tiny -l app=x",
       "to see these jobs: ampctl job list --filter 'labels.app=x AND (id=tiny OR name=tiny)'"},
      {"delete pods -l app=x --field-selector=spec.foo=bar",
       "to see these jobs: ampctl job list --filter labels.app=x; --field-selector is left out"},
      {"drain -l gpu=true --ignore-daemonsets", "workers have no labels; to list the workers: ampctl worker list"},
      {"uncordon --selector=gpu=true", "workers have no labels; to list the workers: ampctl worker list"},
      {"drain w1 --pod-selector=app=x",
       "ampctl worker drain moves all jobs of a worker; to list these jobs: ampctl job list --filter worker=w1"},
      {"scancel -s USR1 5",
       "a job gets no signals; to pause it: ampctl job pause 5; to cancel it: ampctl job cancel 5"},
      {"scancel -s KILL 5", "to cancel a job: ampctl job cancel 5; -s is left out: a job gets no signals"},
      {"bkill -s USR1 -u ann",
       "a job gets no signals; to pause it: ampctl job pause ID; to cancel it: ampctl job cancel ID"},
      {"bkill -u ann 0", "to see these jobs: ampctl job list --filter 'owner=*:ann'"},
      {"delete pod/tiny job/qgpu",
       "to cancel a job that has not ended: ampctl job cancel tiny qgpu; to delete a job that has "
       "ended: ampctl job delete tiny qgpu"},
      {"delete pod/tiny node/w1",
       "to cancel a job that has not ended: ampctl job cancel tiny; to delete a job that has ended: "
       "ampctl job delete tiny; node/w1 is left out"},
  });
}

TEST_F(ForeignWordsTest, EachNameOfAList_IsInTheAnswer) {
  ExpectAnswers({
      {"scontrol update NodeName=vm,gpu2 State=DOWN",
       "for each of them: ampctl worker drain vm && ampctl worker drain gpu2"},
      {"scontrol update NodeName=vm,gpu2 State=RESUME",
       "for each of them: ampctl worker undrain vm && ampctl worker undrain gpu2"},
      {"scontrol update JobId=5,6 Priority=3", "to change a job's priority: ampctl job update 5 6 --priority 3"},
      {"scontrol requeue a,b",
       "for each of them: ampctl job retry a && ampctl job retry b; to interrupt a running job, pause it and then "
       "resume it: "
       "ampctl job pause a b"},
      {"kubectl delete node a b", "for each of them: ampctl worker remove a && ampctl worker remove b"},
      {"brestart x 5",
       "to resume a failed or cancelled job from its last checkpoint: ampctl job retry 5; to interrupt a running job, "
       "pause it and then resume it: ampctl job pause 5"},
      {"squeue -n a,b -u ann,bob",
       "to list jobs: ampctl job list --filter '(name=a OR name=b) AND (owner=*:ann OR owner=*:bob) AND "
       "state!=succeeded AND state!=failed AND state!=cancelled'"},
      {"squeue -w a,b -t all", "to list jobs: ampctl job list --filter 'worker=a OR worker=b'"},
      {"scancel -w vm,gpu2 -t PD",
       "to cancel all such jobs: ampctl job list -q --filter '(worker=vm OR worker=gpu2) AND "
       "state=queued' | xargs -r ampctl job cancel"},
  });
}

TEST_F(ForeignWordsTest, AVerbWithoutItsGroup_OrWithAThing_IsAnsweredWithTheCommand) {
  const struct {
    const char* line;
    const char* meant;
  } cases[] = {
      {"profile x", "job profile x"},
      {"profile x trace.json.gz --steps 3", "job profile x trace.json.gz --steps 3"},
      {"predict x -f data.yaml", "job predict --checkpoint x -f data.yaml"},
      {"gradients x", "job gradients x"},
      {"scale x --set-scale 2", "job scale x --set-scale 2"},
      {"verify ./ck", "checkpoint verify ./ck"},
      {"use lab", "context use lab"},
      {"add lab h:1", "context add lab h:1"},
      {"pack a b --size 32", "data pack --size 32 a b"},
      {"ckpt list x", "checkpoint list x"},
      {"run submit job.yaml", "job submit -f job.yaml"},
      {"runs", "job list"},
      {"nodes", "worker list"},
      {"list workers", "worker list"},
      {"list checkpoints x", "checkpoint list x"},
      {"show policy bf16", "policy show bf16"},
      {"show checkpoint x", "checkpoint show x"},
      {"show logs x", "job logs x"},
      {"create context lab", "context add lab ADDRESS"},
      {"checkpoint pull x@5", "checkpoint download x@5"},
      {"checkpoint inspect x", "checkpoint show x"},
      {"checkpoint convert x m.safetensors", "checkpoint export x m.safetensors"},
      {"job inspect x", "job show x"},
      {"job estimate -f job.yaml", "estimate -f job.yaml"},
      {"job trace x", "job profile x"},
      {"job set-scale x", "job scale x"},
      {"job stats x", "job points x"},
      {"job verify ./ck", "checkpoint verify ./ck"},
      {"infer x -f data.yaml", "job predict --checkpoint x -f data.yaml"},
      {"context delete lab", "context remove lab"},
      {"worker resume w1", "worker undrain w1"},
      {"policy ps", "policy list"},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("; did you mean: ampctl ", test.meant, "\n"))) << test.line;
  }
}

TEST_F(ForeignWordsTest, AVerbWithAThing_MeansWhatItMeansInTheThingsGroup) {
  const struct {
    const char* line;
    const char* meant;
  } cases[] = {
      {"models", "to see which models a job file can name: ampctl init --help"},
      {"list models", "to see which models a job file can name: ampctl init --help"},
      {"create job", "to submit a job: ampctl job submit -f FILE"},
      {"show worker w1", "to list workers with their devices: ampctl worker list -o wide"},
      {"get gpus", "to list workers with their devices: ampctl worker list -o wide"},
      {"get metrics x", "to print a job's steps and evaluations: ampctl job points x"},
      {"datasets", "ampctl does not list data sets"},
      {"start worker", "to start a worker, run on its machine: ampd-worker --server HOST:PORT"},
      {"kubectl exec x", "to see what a job does (ampctl runs no commands in it): ampctl job watch x"},
      {"download checkpoint x", "did you mean: ampctl checkpoint download x"},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.line);
    EXPECT_EQ(result.exit_code, 2) << test.line;
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("; ", test.meant))) << test.line;
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
      {"job list --format {{.ID}}", "--output"},
      {"job list --format json", "-o json"},
      {"job list --json", "-o json"},
      {"checkpoint list x --yaml", "-o yaml"},
      {"job list -n 5", "--limit 5"},
      {"job list -l team=vision", "--filter labels.team=vision"},
      {"job list -w", "--watch"},
      {"job submit --filename job.yaml", "--file"},
      {"job submit -f job.yaml --wait", "--follow"},
      {"job logs j-a --lines 20", "--tail"},
      {"job logs j-a -n 20", "--tail"},
      {"job list -n vision", "--tenant"},
      {"worker list --namespace x", "--tenant"},
      {"job delete x --force", "--yes"},
      {"job submit -f job.yaml --test-only", "--dry-run"},
      {"job submit -f job.yaml --validate", "--dry-run"},
      {"job submit -f job.yaml train.steps=3", "--set train.steps=3"},
      {"job submit -f job.yaml --device cuda", "--set resources.kind=GPU"},
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
      {"job list --active", "did you mean: --filter 'state!=succeeded AND state!=failed AND state!=cancelled'\n"},
      {"job cancel -u ann",
       "ampctl job list -q --filter 'owner=*:ann AND state!=succeeded AND state!=failed AND state!=cancelled' | xargs "
       "-r ampctl job cancel\n"},
      {"job pause -l a=b",
       "ampctl job list -q --filter 'labels.a=b AND (state=running OR state=queued)' | xargs -r ampctl job pause\n"},
      {"job resume --all", "ampctl job list -q --filter state=paused | xargs -r ampctl job resume\n"},
      {"job list --state RUNNING", "did you mean '--filter state=RUNNING'?\n"},
      {"job list --name=x", "did you mean '--filter name=x'?\n"},
      {"job list running", "did you mean '--filter state=running'?\n"},
      {"job list Completed", "did you mean '--filter state=succeeded'?\n"},
      {"job list --sort -age", "did you mean 'age,desc'?\n"},
      {"job list -o=json",
       "there is no output format '=json'; the formats of ampctl job list are table, wide, json, jsonl, yaml, name, "
       "csv; did you mean -o json?"},
      {"job list -o JSON", "did you mean -o json?\n"},
      {"job logs x --since 10", "did you mean 10m?\n"},
      {"job logs x --since 1700000000", "a Unix time, which is not accepted; write 2023-11-14T22:13:20Z\n"},
      {"job logs x --since 1700000000123", "write 2023-11-14T22:13:20Z\n"},
      {"job logs x --since @1700000000", "write 2023-11-14T22:13:20Z\n"},
      {"audit --since 1700000000", "is a Unix time; write how old the oldest entry may be, such as 30m or 7d\n"},
      {"estimate --policies bf16 fp16 -f job.yaml", "did you mean '--policies bf16,fp16'?\n"},
      {"compare -f job.yaml --policies bf16 fp16",
       "write the policies as one word, separated by commas: --policies bf16,fp16\n"},
      {"model inspect net.pt2 --preset bf16,fp16",
       "--preset: takes one value; for several values, repeat the option: --preset bf16 --preset fp16\n"},
      {"model inspect net.pt2 --preset bf16,fp61", "'bf16,fp61' is not one of "},
      {"dev --data-root job.yaml=", "'job.yaml=' has no path; write job.yaml=PATH\n"},
      {"dev --data-root a=. --data-root a=/",
       "--data-root: the name 'a' is given to two folders, . and /; give each folder its own name\n"},
      {"help job-file extra", "ampctl help job-file prints the whole topic; leave out 'extra'\n"},
      {"artifact download x -o file", "did you mean 'ampctl artifact download x file'?\n"},
      {"checkpoint download x -o folder", "did you mean 'ampctl checkpoint download x folder'?\n"},
      {"checkpoint download x --step 200", "did you mean 'ampctl checkpoint download x@200'?\n"},
      {"checkpoint export x --step=200 m", "did you mean 'ampctl checkpoint export x@200 m'?\n"},
      {"checkpoint export x --file m", "did you mean 'ampctl checkpoint export x m'?\n"},
      {"job predict --checkpoint x -f y --out z", "did you mean 'ampctl job predict --checkpoint x -f y z'?\n"},
      {"job cancel x --yes", "leave this option out: ampctl job cancel asks no question\n"},
      {"job events x -f", "to follow the events of a job: ampctl job watch x\n"},
      {"job submit -f job.yaml --queue fast",
       "leave this option out: the server has one queue, which holds all jobs\n"},
      {"job submit -f job.yaml -p fast", "leave this option out: the server has one queue, which holds all jobs\n"},
      {"job submit -f job.yaml --lr 1", "--set optimizer.adamw.learning_rate=VALUE\n"},
      {"job submit -f job.yaml --gpus 2", "a job runs on one device of one worker"},
      {"job submit -f job.yaml -n y", "did you mean '--name y'?\n"},
      {"job submit -f job.yaml -w", "did you mean '--follow'?\n"},
      {"job submit train.py",
       "ampd trains from job files, not scripts; to write a job file to start from: ampctl init\n"},
      {"job list x", "to show a job: ampctl job show x\n"},
      {"job list -A", "ampctl job list --tenant '*'\n"},
      {"job cancel --filter state=queued", "ampctl job list -q --filter state=queued | xargs -r ampctl job cancel\n"},
      {"job wait x --for=condition=running", "'condition=running' is no state; did you mean RUNNING?"},
      {"job wait x --for=complete", "leave out --for"},
      {"login https://lab.example.com", "did you mean: ampctl login prod lab.example.com:PORT\n"},
      {"help formatting", "topics of ampctl help: exit-codes"},
      {"job submit -f job.yaml --array 1-3",
       "for i in 1 2 3; do ampctl job submit -f FILE --set train.seed=$i; done\n"},
      {"version --short", "leave this option out: ampctl version prints one line per program\n"},
      {"dev stop", "press Ctrl-C in the terminal in which ampctl dev runs\n"},
      {"job list --all", "leave this option out: ampctl job list lists jobs in all states\n"},
      {"job cancel --all",
       "ampctl job list -q --filter 'state!=succeeded AND state!=failed AND state!=cancelled' | xargs -r ampctl job "
       "cancel\n"},
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

// ampctl's answer suggests an override. With this override the command must succeed.
TEST_F(ForeignWordsTest, AnOptionOfSlurmOnSubmit_IsAnsweredWithAnOverrideThatIsAccepted) {
  Write("job.yaml", kGoodJob);
  for (const char* option : {"--priority 5",
                             "--gpus 1",
                             "--nodelist w1",
                             "-w w1",
                             "--mem 4GiB",
                             "--time 90m",
                             "--epochs 2",
                             "--steps 9",
                             "--seed 7",
                             "--batch-size 8",
                             "--preset bf16",
                             "--precision fp32",
                             "--job-name y",
                             "-J y",
                             "--mem 4G",
                             "--mem=4000",
                             "--time 1:00:00",
                             "--time=10",
                             "-t 1-12",
                             "--time 2-1:30",
                             "--deadline 1h",
                             "--retry 3",
                             "--retries 3",
                             "--max-retries=3",
                             "--label team=vision",
                             "-l a=b",
                             "--device gpu",
                             "--device cpu",
                             "--gpu",
                             "--gres gpu:1",
                             "--cpus-per-task 2",
                             "--threads 2"}) {
    const std::string error = Run(absl::StrCat("job submit -f job.yaml ", option)).err;
    const std::string begin = "did you mean '";
    ASSERT_THAT(error, HasSubstr(begin)) << option;
    const size_t start = error.find(begin) + begin.size();
    const std::string own = error.substr(start, error.find("'?", start) - start);
    const Result result = Run(absl::StrCat("job submit -q -f job.yaml ", own));
    EXPECT_EQ(result.exit_code, 0) << option << ": " << own << "\n" << result.err;
  }
}

// Returns the commands of ampctl that a sentence names, without "ampctl": "job watch ID" for "...; to watch: ampctl job
// watch ID".
std::vector<std::string> CommandsIn(std::string_view sentence) {
  std::vector<std::string> commands;
  for (const std::string_view before : {": ampctl ", "(ampctl ", "&& ampctl ", "='ampctl "}) {
    for (size_t at = sentence.find(before); at != sentence.npos; at = sentence.find(before, at + 1)) {
      const std::string_view rest = sentence.substr(at + before.size());
      const std::string_view command = rest.substr(0, rest.find_first_of(";,()'&|"));
      const bool is_sentence = command.starts_with("runs ") || command.starts_with("does ") ||
                               command.starts_with("sends ") || command.starts_with("neither ");
      if (!is_sentence) {
        commands.emplace_back(absl::StripAsciiWhitespace(absl::string_view(command.data(), command.size())));
      }
    }
  }
  return commands;
}

TEST_F(ForeignWordsTest, OptionsOfJobSubmitThatChangeTheJob_AreAnsweredByAnOverride) {
  const std::pair<const char*, const char*> cases[] = {
      {"--max-steps 10", "did you mean '--set train.steps=10'?"},
      {"--fp16", "did you mean '--set precision.preset=fp16'?"},
      {"--dtype torch.float16", "did you mean '--set precision.preset=fp16'?"},
      {"--train.steps 3", "did you mean '--set train.steps=3'?"},
      {"--train.steps=3", "did you mean '--set train.steps=3'?"},
      {"-p train.steps=3", "did you mean '--set train.steps=3'?"},
      {"-v train.steps=3", "did you mean '--set train.steps=3'?"},
      {"--param train.steps=3", "did you mean '--set train.steps=3'?"},
      {"--param x=3", "did you mean '--set PATH=VALUE'?"},
      {"+train.steps=3", "did you mean '--set train.steps=3'?"},
      {"--set train.steps = 3", "did you mean '--set train.steps=3'?"},
      {"--labels a=b,c=d", "did you mean '--set labels.a=b --set labels.c=d'?"},
      {"--set-file train=x.yaml", "--set takes the value itself, and reads no file"},
      {"'~eval'", "--set cannot remove a field; remove it in the file"},
      {"-p gpu", "the server has one queue"},
      {"-n 4", "a job runs on one device"},
      {"-n mine", "did you mean '--name mine'?"},
      {"--config x.yaml", "did you mean '--file'?"},
      {"--output-dir out", "ampctl checkpoint download ID"}};
  for (const auto& [words, answer] : cases) {
    EXPECT_THAT(Run(absl::StrCat("job submit -f job.yaml ", words)).err, HasSubstr(answer)) << words;
  }
  for (const char* command :
       {"estimate -f job.yaml", "compare -f job.yaml", "job predict --checkpoint x -f job.yaml"}) {
    EXPECT_THAT(Run(absl::StrCat(command, " --batch-size 8")).err, HasSubstr("did you mean '--set data.batch_size=8'?"))
        << command;
    EXPECT_THAT(Run(absl::StrCat(command, " --train.seed 8")).err, HasSubstr("did you mean '--set train.seed=8'?"))
        << command;
  }
}

// Types each command and option that the tables can suggest, with example words in place of ID and the like. The
// server's address is invalid, so that a command that is understood fails with an error about the address.
TEST_F(ForeignWordsTest, EverySuggestion_IsUnderstoodWhenItIsTyped) {
  Write("job.yaml", kGoodJob);
  const std::string nowhere = "AMPD_ADDRESS=no/where";
  const auto typed = [](std::string text) {
    std::string line;
    for (const absl::string_view word : absl::StrSplit(text, ' ')) {
      const std::map<absl::string_view, const char*> own = {{"ID", "x"},
                                                            {"ID...", "y"},
                                                            {"NAME", "x"},
                                                            {"FILE", "job.yaml"},
                                                            {"FOLDER", "x"},
                                                            {"N", "1"},
                                                            {"ROLE", "viewer"},
                                                            {"ADDRESS", "h:1"},
                                                            {"TOKEN", "x"},
                                                            {"JOB", "x"},
                                                            {"NEW", "x"},
                                                            {"OLD", "x"},
                                                            {"ID@best", "x@best"},
                                                            {"ID@newest", "x@newest"},
                                                            {"PATH=VALUE", "train.steps=3"},
                                                            {"train.seed=$i", "train.seed=3"}};
      const auto found = own.find(word);
      absl::StrAppend(&line, line.empty() ? "" : " ", found == own.end() ? std::string(word) : found->second);
    }
    return line;
  };
  std::set<std::string> lines;
  for (const ForeignWord& word : ForeignWords()) {
    const bool is_preset = std::string_view(word.command).starts_with("policy show");
    lines.insert(is_preset ? "policy show bf16" : typed(word.command));
    for (const std::string& command : CommandsIn(word.purpose)) {
      lines.insert(typed(command));
    }
  }
  const std::map<std::string, std::string> values = {{"--format", "json"},
                                                     {"--time", "90"},
                                                     {"-t", "90"},
                                                     {"--deadline", "90"},
                                                     {"--mem", "4G"},
                                                     {"--preset", "bf16"},
                                                     {"--precision", "bf16"},
                                                     {"--dtype", "bf16"},
                                                     {"--label", "a=b"},
                                                     {"--labels", "a=b"},
                                                     {"-l", "a=b"},
                                                     {"--selector", "a=b"},
                                                     {"--device", "cuda"},
                                                     {"--policy", "bf16"},
                                                     {"--presets", "bf16"},
                                                     {"--state", "running"},
                                                     {"--template", "mlp"},
                                                     {"--job-name", "y"},
                                                     {"-J", "y"}};
  for (const ForeignOption& option : ForeignOptions()) {
    const std::string command = *option.command == '\0' ? "job list" : option.command;
    const bool is_state = std::string_view(option.own) == "--filter state=%";
    const auto value = values.find(option.foreign);
    const bool own_name = std::string_view(option.own) == "--name %";
    const bool is_override = std::string_view(option.own) == "--set %";
    const std::string own = RewrittenOption(command, option.foreign,
                                            is_state                ? "PD"
                                            : own_name              ? "y"
                                            : is_override           ? "train.steps=3"
                                            : value == values.end() ? "1"
                                                                    : value->second);
    EXPECT_FALSE(own.empty()) << option.foreign;
    EXPECT_THAT(own, Not(HasSubstr("VALUE"))) << option.foreign;
    lines.insert(absl::StrCat(command,
                              command == "job submit"                          ? " -f job.yaml "
                              : command == "auth token create"                 ? " x --role viewer "
                              : command == "compare" || command == "estimate"  ? " -f job.yaml "
                              : command == "job points"                        ? " x "
                              : command == "job update"                        ? " x "
                              : command == "job logs" || command == "job wait" ? " x "
                                                                               : " ",
                              own));
  }
  lines.erase("");
  lines.erase("dev");  // It would start a server.
  for (const std::string& line : lines) {
    const Result result = Run(line + " </dev/null", nowhere);
    EXPECT_THAT(result.err, Not(HasSubstr(" --help\n"))) << line;
    const bool asks_server = line.starts_with("job ") && !line.ends_with("--help");
    if (asks_server) {
      EXPECT_THAT(result.err, AnyOf(HasSubstr("the address 'no/where' from AMPD_ADDRESS"),
                                    HasSubstr("cannot ask for confirmation")))
          << line;
    }
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

TEST(NumbersOfArray, AreWordsOfAShell) {
  EXPECT_EQ(NumbersOfArray("7"), "7");
  EXPECT_EQ(NumbersOfArray("0-3"), "$(seq 0 3)");
  EXPECT_EQ(NumbersOfArray("1,3,5-9:2%4"), "1 3 $(seq 5 2 9)");
  for (const char* const text : {"", "x", "1-", "1-2-3", "3:2", "1,,2"}) {
    EXPECT_EQ(NumbersOfArray(text), "") << text;
  }
}

// Two rows must not have the same words, because the second row would never be used. A row with two answers gives two
// entries with the same words in ForeignWords(); that is allowed.
TEST(ForeignWordList, HasEachWordingOnce) {
  std::map<std::string, std::string> rows;  // by wording
  for (const ForeignWord& word : ForeignWords()) {
    const auto [row, is_new] = rows.insert({word.words, word.row});
    EXPECT_EQ(row->second, word.row) << word.words;
  }
  EXPECT_TRUE(rows.contains("scontrol hold"));
  EXPECT_TRUE(rows.contains("scontrol suspend"));
  EXPECT_FALSE(rows.contains("scontrol hold|uhold|suspend"));
}

TEST(ForeignWordAdvice, IsEmptyForOtherWords) {
  const CLI::App root;
  EXPECT_EQ(ForeignWordAdvice(root, "", {"frobnicate"}), "");
  EXPECT_EQ(ForeignWordAdvice(root, "job", {"squeue"}), "");
  EXPECT_EQ(ForeignWordAdvice(root, "", {}), "");
}

TEST(FilterForLabels, ReadsTheSelectorsOfKubectl) {
  const std::pair<const char*, const char*> cases[] = {
      {"team=a", "--filter labels.team=a"},
      {"team==a,env!=b", "--filter 'labels.team=a AND labels.env!=b'"},
      {"team", "--filter 'labels.team=*'"},
      {"!team", "--filter 'labels.team!=*'"},
      {"team in (a, b)", "--filter 'labels.team=a OR labels.team=b'"},
      {"team notin (a,b)", "--filter 'labels.team!=a AND labels.team!=b'"},
      {"team in (a b)", ""},
      {"a b", ""},
      {"=a", ""},
      {"team=", ""},
      {"", ""}};
  for (const auto& [selector, filter] : cases) {
    EXPECT_EQ(FilterForLabels(selector), filter) << selector;
  }
}

}  // namespace
}  // namespace ampd::client
