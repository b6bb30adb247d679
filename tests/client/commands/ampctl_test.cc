#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/io/file.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  fake_.jobs.script()->refuse_creates = 2;
  const Result result = Run("job submit -q -f job.yaml");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fake_.jobs.script()->refuse_creates, 0) << "the fault never fired";
  EXPECT_EQ(fake_.jobs.size(), 1);
}

TEST_F(Ampctl, ACallThatTheServerDropsWhileItShutsDown_IsRepeatedAsIfItWereGone) {
  Write("job.yaml", kGoodJob);
  fake_.jobs.script()->away = grpc::StatusCode::CANCELLED;
  fake_.jobs.script()->refuse_creates = 2;
  const Result submitted = Run("job submit -q -f job.yaml");
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_EQ(fake_.jobs.size(), 1);
  fake_.jobs.script()->refuse_creates = 1;
  const Result refused = Run("job submit -q -f job.yaml --retry-for 0s");
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.err, HasSubstr(": the server dropped the call; it may be shutting down"));
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  fake_.jobs.script()->cut_watch_after = 3;
  const Result watched = Run("job watch -o jsonl " + id);
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  EXPECT_EQ(fake_.jobs.script()->num_cuts, 4);
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
  EXPECT_THAT(result.out, HasSubstr("batch_size: 4"));
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

TEST_F(Ampctl, AnIncompleteList_SaysSoOnStderrAndInJson) {
  for (int i = 0; i < 5; ++i) {
    fake_.jobs.Add("n", v1::Job::QUEUED);
  }
  const Result cut = Run("job list --limit 2");
  EXPECT_THAT(cut.err, HasSubstr("2 of 5 jobs; next page: --page-token 2; all jobs: --limit 0\n"));
  EXPECT_EQ(Run("job list -q --limit 2").err, "") << "a hint, which -q leaves out";
  const Result json = Run("job list --limit 2 -o json");
  EXPECT_THAT(json.out, HasSubstr("\"totalSize\": \"5\""));
  EXPECT_THAT(json.out, HasSubstr("\"nextPageToken\": \"2\""));
  EXPECT_THAT(json.out, HasSubstr("\"jobs\": ["));
  EXPECT_THAT(json.err, HasSubstr("2 of 5 jobs"));
  const Result rest = Run("job list --page-token 2 -o name");
  EXPECT_EQ(std::count(rest.out.begin(), rest.out.end(), '\n'), 3);
  EXPECT_EQ(rest.err, "");
  EXPECT_THAT(Run("job list --limit 5").err, Not(HasSubstr("of 5")));
}

TEST_F(Ampctl, QuietWithAFormatForPrograms_LeavesOutOnlyTheHints) {
  const std::string id = fake_.jobs.Add("n", v1::Job::QUEUED).id();
  for (const char* command : {"job list", "job show n", "worker list", "checkpoint list n", "job pause n"}) {
    for (const char* format : {"json", "jsonl", "yaml"}) {
      const std::string line = absl::StrCat(command, " -o ", format);
      const Result loud = Run(line);
      const Result quiet = Run(line + " -q");
      EXPECT_EQ(quiet.out, loud.out) << line;
      EXPECT_EQ(quiet.err, "") << line;
    }
  }
  EXPECT_EQ(Run("job list -q -o csv").out, Run("job list -o csv").out);
  EXPECT_THAT(Run("job list -q -o wide").out, testing::StartsWith("ID  "));
  EXPECT_EQ(Run("job list -q").out, id + "\n");
}

TEST_F(Ampctl, SubmitSaysHowLongWhatTheJobLeavesIsKept) {
  Write("job.yaml", kGoodJob);
  EXPECT_THAT(Run("job submit -f job.yaml").err, Not(HasSubstr("storage:"))) << "an older server does not say";
  fake_.jobs.script()->retention.mutable_history()->set_seconds(int64_t{30} * 24 * 3600);
  EXPECT_THAT(Run("job submit -f job.yaml").err,
              HasSubstr("  storage: points, events and logs are kept for 30 days after the job's end; checkpoints are "
                        "kept until they are deleted\n"));
  fake_.jobs.script()->retention.mutable_checkpoints()->set_seconds(5400);
  EXPECT_THAT(Run("job submit -f job.yaml").err, HasSubstr("; checkpoints are kept for 1h30m after the job's end\n"));
}

TEST_F(Ampctl, DevCleanNamesWhatItWouldDeleteAndNeedsAnAnswer) {
  std::filesystem::create_directories(folder_ + "/.ampd/checkpoints/j-a");
  std::filesystem::create_directories(folder_ + "/.ampd/checkpoints/j-b");
  Write(".ampd/lock", "");
  Write(".ampd/checkpoints/j-a/model", std::string(2048, 'x'));
  Write(".ampd/server.log", "line\n");
  const Result refused = Run("dev --clean --port 0 --metrics-port 0 < /dev/null");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr(folder_ + "/.ampd"));
  EXPECT_THAT(refused.err, HasSubstr("checkpoints of 2 jobs (2.0 KiB), server.log (5 B)"));
  EXPECT_THAT(refused.err, HasSubstr("ampctl dev --clean --yes"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/.ampd/checkpoints/j-a/model"));
  std::filesystem::remove(folder_ + "/.ampd/lock");
  const Result strange = Run("dev --clean --yes --port 0 --metrics-port 0 < /dev/null");
  EXPECT_EQ(strange.exit_code, 1);
  EXPECT_THAT(strange.err, HasSubstr("was not created by ampctl dev, so nothing was deleted"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/.ampd/checkpoints/j-a/model"));
}

TEST_F(Ampctl, WatchResumesACutStreamWithoutGapOrDouble) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  fake_.jobs.script()->cut_watch_after = 3;
  const Result result = Run("job watch -o jsonl " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(fake_.jobs.script()->num_cuts, 4);
  std::string sequences;
  for (int i = 1; i <= 13; ++i) {
    const size_t at = result.out.find(absl::StrCat("\"sequence\":\"", i, "\""));
    ASSERT_NE(at, std::string::npos) << i;
    EXPECT_EQ(result.out.find(absl::StrCat("\"sequence\":\"", i, "\""), at + 1), std::string::npos) << i;
  }
  EXPECT_EQ(fake_.jobs.script()->watch_tokens, (std::vector<std::string>{"", "3", "6", "9", "12"}));
}

TEST_F(Ampctl, WatchOffATerminalPrintsLines) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const Result result = Run("job watch " + id);
  EXPECT_THAT(result.out, HasSubstr("step 10 "));
  EXPECT_THAT(result.out, HasSubstr("overflow at step 2"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(Ampctl, EveryExitCodeOfTheDocumentation) {
  Write("job.yaml", kGoodJob);
  Write("wrong.yaml", "nam: x\n");
  const std::string succeeded = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const std::string failed = fake_.jobs.Add("n", v1::Job::FAILED).id();
  const std::string cancelled = fake_.jobs.Add("n", v1::Job::CANCELLED).id();
  const std::string nowhere = "AMPD_ADDRESS=127.0.0.1:1";
  const struct {
    std::string command;
    int exit_code;
    std::string environment;
  } cases[] = {
      {"job list", 0, ""},
      {"help exit-codes", 0, nowhere},
      {"job wait " + succeeded, 0, ""},
      {"job watch " + succeeded, 0, ""},
      {"job wait " + failed, 1, ""},
      {"job watch " + failed, 1, ""},
      {"job wait " + succeeded + " " + failed + " " + cancelled, 1, ""},
      {"jb list", 2, ""},
      {"job", 2, ""},
      {"job list --limit many", 2, ""},
      {"job list -o xml", 2, ""},
      {"job submit -f wrong.yaml", 2, ""},
      {"job submit -f missing.yaml", 2, ""},
      {"job delete " + failed + " < /dev/null", 2, ""},
      {"context add lab nowhere", 2, ""},
      {"job show j-nowhere", 3, ""},
      {"job watch j-nowhere", 3, ""},
      {"job logs j-nowhere", 3, ""},
      {"worker undrain w2", 3, ""},
      {"context use lab", 3, ""},
      {"job list --address foo", 2, ""},
      {"job list --address http://127.0.0.1:7070", 2, ""},
      {"job list --address 127.0.0.1:65536", 2, ""},
      {"job list", 2, "AMPD_ADDRESS=127.0.0.1"},
      {"job scale --set-scale 0 " + cancelled, 2, ""},
      {"job scale --growth-interval 0 " + cancelled, 2, ""},
      {"job logs --attempt first " + cancelled, 2, ""},
      {"checkpoint show " + cancelled + " newest", 2, ""},
      {"checkpoint verify nowhere", 3, ""},
      {"job list", 5, nowhere},
      {"job watch x", 5, nowhere},
      {"job submit -f job.yaml --retry-for 0s", 5, nowhere},
      {"job wait " + cancelled, 6, ""},
      {"job watch " + cancelled, 6, ""},
  };
  for (const auto& test : cases) {
    const Result result = Run(test.command, test.environment);
    EXPECT_EQ(result.exit_code, test.exit_code) << "ampctl " << test.command << "\n" << result.err;
  }
  const std::string codes = Run("help exit-codes").out;
  const auto documented = ReadFile(std::string(AMPD_SOURCE_DIR) + "/docs/cli.md", 1 << 20);
  for (const char* code : {"0", "1", "2", "3", "4", "5", "6", "7", "130"}) {
    EXPECT_THAT(codes, HasSubstr(absl::StrCat(code, "  "))) << code;
    EXPECT_THAT(*documented, HasSubstr(absl::StrCat("\n| ", code, " | "))) << code;
  }
}

TEST_F(Ampctl, APermissionError_ExitsWithFour) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  for (const auto code : {grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::UNAUTHENTICATED}) {
    fake_.jobs.script()->refuse_gets = code;
    EXPECT_EQ(Run("job show " + id).exit_code, 4);
  }
}

TEST_F(Ampctl, AWaitThatTimesOut_ExitsWithSevenAndTheJobContinues) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->hold_watches = true;
  const Result result = Run("job wait --timeout 100ms " + id);
  fake_.jobs.release.Notify();
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("did not end within 100ms (--timeout); the job continues"));
  EXPECT_THAT(result.err, Not(HasSubstr("slow or out of reach")));
}

TEST_F(Ampctl, AWaitWithoutTime_SeesTheStateThatAJobHasNow) {
  const std::string succeeded = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  EXPECT_EQ(Run("job wait --timeout 0s " + succeeded).exit_code, 0);
  const std::string paused = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  EXPECT_EQ(Run("job wait --for PAUSED --timeout 0s " + paused).exit_code, 0);
  const std::string running = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const Result late = Run("job wait --timeout 0s " + running);
  EXPECT_EQ(late.exit_code, 7);
  EXPECT_THAT(late.err, HasSubstr("did not end within 0s (--timeout); the job continues"));
}

TEST_F(Ampctl, AWaitForAState_EndsOnceTheJobHasIt) {
  const std::string paused = fake_.jobs.Add("n", v1::Job::PAUSED).id();
  const Result reached = Run("job wait --for PAUSED " + paused);
  EXPECT_EQ(reached.exit_code, 0) << reached.err;
  EXPECT_THAT(reached.out, HasSubstr("PAUSED"));
  const std::string succeeded = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const Result never = Run("job wait --for PAUSED " + succeeded);
  EXPECT_EQ(never.exit_code, 1);
  EXPECT_THAT(never.err, HasSubstr("ended as SUCCEEDED before ampctl saw it PAUSED"));
  EXPECT_EQ(Run("job wait --for ENDED " + succeeded).exit_code, 2);
  const std::string running = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->hold_watches = true;
  const Result late = Run("job wait --for PAUSED --timeout 100ms " + running);
  fake_.jobs.release.Notify();
  EXPECT_EQ(late.exit_code, 7);
  EXPECT_THAT(late.err, HasSubstr("was not PAUSED within 100ms (--timeout); the job continues"));
}

TEST_F(Ampctl, CtrlCOnlyDetachesFromAWatchAndSaysHowToComeBack) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  fake_.jobs.script()->hold_watches = true;
  const pid_t pid = fork();
  if (pid == 0) {
    const bool placed = freopen((folder_ + "/out").c_str(), "w", stdout) != nullptr &&
                        freopen((folder_ + "/err").c_str(), "w", stderr) != nullptr;
    if (placed) {
      execl(AMPD_BIN_DIR "/ampctl", "ampctl", "--address", fake_.address().c_str(), "job", "watch", id.c_str(),
            nullptr);
    }
    _exit(99);
  }
  fake_.jobs.watching.WaitForNotification();
  kill(pid, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  fake_.jobs.release.Notify();
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(*ReadFile(folder_ + "/err", 1 << 20), HasSubstr("the job continues. To attach again: ampctl --address " +
                                                              fake_.address() + " job watch " + id));
}

TEST_F(Ampctl, PauseAndResumeTakeSeveralJobsAndReportTheirStates) {
  const std::string first = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const std::string second = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  EXPECT_EQ(Run("job pause " + first + " " + second).out, first + "  PAUSED\n" + second + "  PAUSED\n");
  EXPECT_EQ(Run("job resume -q " + first).out, first + "\n");
  EXPECT_EQ(Run("job resume " + first).err, first + " was not paused; nothing was changed\n");
  EXPECT_EQ(Run("job resume " + second).err, "");
  Run("job pause " + second);
  EXPECT_THAT(Run("job show " + first).out, HasSubstr("QUEUED"));
  EXPECT_THAT(Run("job show " + second).err, HasSubstr("resume: ampctl job resume " + second));
  const Result result = Run("job pause j-nowhere " + first);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr(first + "  PAUSED")) << "the others are done all the same";
}

TEST_F(Ampctl, ScaleOrdersWhatItWasGivenAndNothingElse) {
  const std::string id = fake_.jobs.Add("a", v1::Job::RUNNING).id();
  EXPECT_EQ(Run("job scale --set-scale 4096 " + id).out, id + "  the change takes effect at the next step\n");
  EXPECT_EQ(Run("job scale --growth-interval 500 " + id).exit_code, 0);
  const std::vector<v1::UpdateJobRequest> updates = fake_.jobs.script()->updates;
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0].ShortDebugString(), absl::StrCat("id: \"", id,
                                                        "\" update_mask { paths: \"loss_scale_order\" } "
                                                        "loss_scale_order { scale: 4096 }"));
  EXPECT_EQ(updates[1].loss_scale_order().ShortDebugString(), "growth_interval: 500");
  const std::string queued = fake_.jobs.Add("b", v1::Job::QUEUED).id();
  EXPECT_EQ(Run("job scale --set-scale 8 " + queued).out,
            queued + "  the change takes effect at the first step after the job has started\n");
  const std::string paused = fake_.jobs.Add("c", v1::Job::PAUSED).id();
  EXPECT_EQ(Run("job scale --set-scale 8 " + paused).out,
            paused + "  the change takes effect at the first step after the job has resumed\n");
  const Result nothing = Run("job scale " + id);
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing to set: give --set-scale, --growth-interval or both"));
}

TEST_F(Ampctl, GradientsAsksAndShowsAHistogramOfEachModule) {
  const std::string id = fake_.jobs.Add("a", v1::Job::RUNNING).id();
  fake_.jobs.script()->answers_gradients = true;
  const Result shown = Run("job gradients --ascii " + id);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out,
              HasSubstr("MODULE    FORMAT    ELEMENTS  ZERO   LOST BITS  NOT FINITE  EXPONENTS     HISTOGRAM"));
  EXPECT_THAT(shown.out, HasSubstr("layers.0  float16   200       25.0%  10.0%      -           2^-16..2^-14  "));
  EXPECT_THAT(shown.out, HasSubstr("MODULE IN FP8  AT STEP  BECAME ZERO    SATURATED     ERROR"));
  EXPECT_THAT(shown.out, HasSubstr("layers.2       1001     - / 12.5% / -  - / - / 0.2%  3.7% / - / -"));
  EXPECT_THAT(Run("job gradients -o json " + id).out, HasSubstr("\"suggestedScale\": 4096"));
  fake_.jobs.script()->answers_gradients = false;
  const Result ended = Run("job gradients " + id);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr(id + " ended before it reported its gradients"));
}

TEST_F(Ampctl, AProfile_IsRequestedAndWrittenToOneFile) {
  const std::string id = fake_.jobs.Add("clothes", v1::Job::RUNNING).id();
  fake_.artifacts.AddToEveryJob("part two", "profile-2.json.gz");
  fake_.artifacts.AddToEveryJob("part one, ", "profile-1.json.gz");
  fake_.artifacts.AddToEveryJob("a text", "sample.txt");
  fake_.jobs.script()->profile_files = 2;
  const Result written = Run("job profile clothes --steps 7");
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.out, "clothes-profile-step-0.json.gz: profiled 5 steps, up to step 0 (18 B)\n");
  EXPECT_THAT(written.err, HasSubstr("open it at https://ui.perfetto.dev"));
  EXPECT_EQ(*ReadFile(folder_ + "/clothes-profile-step-0.json.gz", 100), "part one, part two");
  EXPECT_EQ(fake_.jobs.script()->updates.back().profile_steps(), 7);
  // If the file to write exists, ampctl keeps the file and does not ask the job for a profile.
  const size_t num_updates = fake_.jobs.script()->updates.size();
  Write("trace.json.gz", "mine");
  const Result exists = Run("job profile clothes trace.json.gz");
  EXPECT_EQ(exists.exit_code, 1);
  EXPECT_THAT(exists.err,
              HasSubstr("trace.json.gz already exists; write to another file, or use --force to replace this one"));
  EXPECT_EQ(fake_.jobs.script()->updates.size(), num_updates);
  const Result number = Run("job profile clothes 10");
  EXPECT_EQ(number.exit_code, 2);
  EXPECT_THAT(number.err, HasSubstr("did you mean --steps 10? For a file with this name, write ./10\n"));
  EXPECT_EQ(fake_.jobs.script()->updates.size(), num_updates);
  EXPECT_THAT(Run("job profile clothes --force trace.json.gz -o json").out, HasSubstr("\"sizeBytes\": \"18\""));
  fake_.jobs.script()->profile_files = 3;
  EXPECT_THAT(Run("job profile clothes other.gz").err,
              HasSubstr("the server does not have the complete profile of step 0"));
  fake_.jobs.script()->profile_files = 0;
  EXPECT_THAT(Run("job profile " + id + " other.gz").err, HasSubstr(id + " ended before it reported its profile"));
  EXPECT_EQ(Run("job profile clothes --steps 0").exit_code, 2);
  EXPECT_EQ(Run("job profile clothes --steps 101").exit_code, 2);
}

TEST_F(Ampctl, AProfileForStdout_IsOnlyTheProfile) {
  fake_.jobs.Add("clothes", v1::Job::RUNNING);
  fake_.artifacts.AddToEveryJob("part two", "profile-2.json.gz");
  fake_.artifacts.AddToEveryJob("part one, ", "profile-1.json.gz");
  fake_.jobs.script()->profile_files = 2;
  const Result printed = Run("job profile clothes -");
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_EQ(printed.out, "part one, part two");
  EXPECT_THAT(printed.err, HasSubstr("profiled 5 steps"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/-"));
  EXPECT_EQ(Run("job profile clothes - -o json").exit_code, 2);
}

TEST_F(Ampctl, AFileNameWithTheEndingOfAnotherFormat_IsRefused) {
  fake_.jobs.Add("clothes", v1::Job::RUNNING);
  const Result profile = Run("job profile clothes t2.json");
  EXPECT_EQ(profile.exit_code, 2);
  EXPECT_THAT(profile.err, HasSubstr("t2.json ends in .json, but this command writes gzipped JSON; name the file "
                                     "t2.json.gz"));
  EXPECT_TRUE(fake_.jobs.script()->updates.empty());
  const Result model = Run("checkpoint export clothes z.pt");
  EXPECT_EQ(model.exit_code, 2);
  EXPECT_THAT(model.err, HasSubstr("z.pt ends in .pt, but this command writes safetensors; name the file "
                                   "z.safetensors"));
  Write("text", "words");
  for (const char* line : {"checkpoint export clothes -", "data tokenize text -", "compare --label c-1 --html -"}) {
    const Result result = Run(line);
    EXPECT_EQ(result.exit_code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr("this command cannot write to stdout; name a file")) << line;
  }
}

TEST_F(Ampctl, ABatchThatIsLargerThanTheDataSet_IsNoted) {
  Write("job.yaml", absl::StrCat("name: x\ndata:\n  batch_size: 1000\n  train: {synthetic: {num_samples: 256}}\n"));
  const std::string note =
      "note: data.batch_size is 1000, but the data set has 256 samples; each step trains with 256\n";
  EXPECT_THAT(Run("job submit -f job.yaml --dry-run").err, HasSubstr(note));
  EXPECT_THAT(Run("job submit --dry-run -f job.yaml --set data.last_batch=PAD").err, Not(HasSubstr("note:")));
  EXPECT_THAT(Run("job submit --dry-run -f job.yaml --set data.batch_size=256").err, Not(HasSubstr("note:")));
}

TEST_F(Ampctl, AUrl_IsNoJobFile) {
  const Result result = Run("job submit -f https://example.com/job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("ampctl reads no URLs; to submit the file at this URL: curl -s "
                                    "https://example.com/job.yaml | ampctl job submit -f -\n"));
}

TEST_F(Ampctl, OnlyARunningJob_CanBeProfiledOrAskedForItsGradients) {
  for (const auto state : {v1::Job::SUCCEEDED, v1::Job::PAUSED, v1::Job::QUEUED}) {
    const std::string id = fake_.jobs.Add("n", state).id();
    const std::string is = absl::StrCat("; job ", id, " is ", v1::Job::State_Name(state));
    const Result profile = Run("job profile " + id);
    EXPECT_EQ(profile.exit_code, 1);
    EXPECT_THAT(profile.err, HasSubstr("only a running job can be profiled" + is));
    EXPECT_THAT(Run("job gradients " + id).err, HasSubstr("only a running job can be asked for its gradients" + is));
  }
  EXPECT_TRUE(fake_.jobs.script()->updates.empty());
}

TEST_F(Ampctl, CancelOfAnEndedJobSaysThatNothingChanged) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  const Result result = Run("job cancel " + id);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("had already ended"));
}

TEST_F(Ampctl, Retry_ResumesFromTheCheckpoint_AndCloneStartsOver) {
  const std::string id = fake_.jobs.Add("n", v1::Job::FAILED).id();
  EXPECT_EQ(Run("job retry -q " + id).exit_code, 0);
  const Result clone = Run("job clone --name other " + id);
  EXPECT_EQ(clone.exit_code, 0);
  EXPECT_THAT(clone.err, HasSubstr("submitted other"));
  const std::vector<v1::CloneJobRequest> clones = fake_.jobs.script()->clones;
  ASSERT_EQ(clones.size(), 2);
  EXPECT_TRUE(clones[0].from_last_checkpoint());
  EXPECT_EQ(clones[0].name(), "");
  EXPECT_FALSE(clones[1].from_last_checkpoint());
  EXPECT_NE(clones[0].request_id(), clones[1].request_id());
  EXPECT_EQ(fake_.jobs.size(), 3);
}

TEST_F(Ampctl, SubmitWithFollowWatchesToTheEnd) {
  Write("job.yaml", kGoodJob);
  fake_.jobs.script()->created_state = v1::Job::FAILED;
  const Result result = Run("job submit -f job.yaml --follow");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("j-aaaaaaaaaaaaaaa0\n"));
  EXPECT_THAT(result.out, HasSubstr("step 10"));
  EXPECT_THAT(result.err, HasSubstr("resume from its last checkpoint: ampctl job retry j-aaaaaaaaaaaaaaa0"));
}

TEST_F(Ampctl, AnUnsupportedField_IsAUsageErrorAtItsLine) {
  Write("job.yaml", "name: x\nqueue: other\ndata:\n  batch_size: 4\n");
  fake_.jobs.script()->unsupported_fields = {"queue"};
  const Result result = Run("job submit -f job.yaml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("error: job.yaml:2:1: queue: is not supported: this server has one queue"));
}

TEST_F(Ampctl, SeveralUnsupportedFields_AreErrorsAtTheirLines) {
  Write("job.yaml", "name: x\nqueue: other\npriority: 3\ndata:\n  batch_size: 4\n");
  fake_.jobs.script()->unsupported_fields = {"queue", "priority"};
  const std::string text = Run("job submit -f job.yaml").err;
  EXPECT_THAT(text, HasSubstr("error: job.yaml:2:1: queue: is not supported: this server has one queue"));
  EXPECT_THAT(text, HasSubstr("error: job.yaml:3:1: priority: is not supported: this server has one queue"));
}

TEST_F(Ampctl, TheSocketOfAServerIsAnAddress) {
  const Result none = Run("job list --address unix:/nowhere/ampd.sock");
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_THAT(none.err, HasSubstr("cannot reach the server at unix:/nowhere/ampd.sock: "));
  EXPECT_EQ(Run("context add local unix:/run/ampd/ampd.sock").exit_code, 0);
  EXPECT_THAT(Run("context list").out, HasSubstr("unix:/run/ampd/ampd.sock"));
  for (const char* const address : {"unix:", "unix:/", "unix:ampd.sock", "'unix:/a b'"}) {
    EXPECT_EQ(Run(absl::StrCat("job list --address ", address)).exit_code, 2) << address;
    EXPECT_EQ(Run(absl::StrCat("context add other ", address)).exit_code, 2) << address;
  }
}

TEST_F(Ampctl, AnUnreachableServer_IsOneLineOfWhyAndOneOfWhatToDo) {
  EXPECT_EQ(Run("job list", "AMPD_ADDRESS=127.0.0.1:1").err,
            "error: cannot reach the server at 127.0.0.1:1: Connection refused\n"
            "  try: ampctl dev (starts a server here); the address comes from AMPD_ADDRESS; to use another: --address "
            "HOST:PORT\n");
}

// ampctl must use the system's resolver by default: gRPC's own resolver waits for a DNS server even if /etc/hosts has
// the name. Only gRPC's debug log says which resolver is in use.
TEST_F(Ampctl, NamesOfHostsAreResolvedAsTheSystemDoes) {
  const std::string debugged = absl::StrCat(kNoServer, " GRPC_VERBOSITY=debug ");
  EXPECT_THAT(Run("job list", debugged).err, HasSubstr("Using native dns resolver"));
  EXPECT_THAT(Run("job list", absl::StrCat(debugged, "GRPC_DNS_RESOLVER=ares")).err,
              HasSubstr("Using ares dns resolver"));
}

TEST_F(Ampctl, AWrongCommandGetsTheNearestOne) {
  EXPECT_THAT(Run("job sumbit -f x").err, HasSubstr("did you mean 'submit'?"));
}

TEST_F(Ampctl, AUsageError_NeverNamesAnOptionsValueAsACommand) {
  for (const char* options :
       {"--address 127.0.0.1:1 ", "--address=127.0.0.1:1 ", "-q -o json ", "-ojson ", "-qo json "}) {
    EXPECT_THAT(Run(absl::StrCat(options, "job list --limit -1")).err,
                ::testing::EndsWith("  try: ampctl job list --help\n"))
        << options;
    EXPECT_THAT(Run(absl::StrCat(options, "job sumbit -f x")).err,
                HasSubstr("error: ampctl job has no command 'sumbit'; its commands are submit, "))
        << options;
  }
  const Result format = Run("--address 127.0.0.1:1 job list -o xml");
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.err, HasSubstr("there is no output format 'xml'"));
  EXPECT_THAT(Run("job --colour never list").err, HasSubstr("did you mean '--color'?"));
  EXPECT_THAT(Run("job list --limt 3").err,
              HasSubstr("error: ampctl job list has no option '--limt'\n  did you mean '--limit'?"));
  EXPECT_THAT(Run("--address 127.0.0.1:1").err, HasSubstr("error: ampctl needs one of these commands: job, "));
}

TEST_F(Ampctl, Logs_AfterACutStream_Resume) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const Result result = Run("job logs " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "line one\nline two\n");
  ASSERT_EQ(fake_.jobs.script()->log_requests.size(), 2) << "the cut never happened";
  EXPECT_FALSE(fake_.jobs.script()->log_requests[0].follow());
}

TEST_F(Ampctl, LogsFollow_AfterACutStream_ResumesWhereItWas) {
  v1::Job job = fake_.jobs.Add("n", v1::Job::RUNNING);
  job.set_num_attempts(1);
  fake_.jobs.Put(job);
  const std::string& id = job.id();
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "line one\nline two\n");
  ASSERT_EQ(fake_.jobs.script()->log_requests.size(), 2);
  EXPECT_TRUE(fake_.jobs.script()->log_requests[1].follow());
  EXPECT_EQ(fake_.jobs.script()->log_requests[1].offset_bytes(), 9);
  EXPECT_EQ(Run("job logs --tail-bytes 9 " + id).out, "line two\n");
}

TEST_F(Ampctl, VerbsExplainAndWorkers) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  EXPECT_THAT(Run("job explain " + id).out, HasSubstr("needs 8.0 GiB, 4.0 GiB free"));
  EXPECT_EQ(Run("job cancel " + id).out, id + "  CANCELLED\n");
  EXPECT_EQ(Run("job delete " + id + " < /dev/null").exit_code, 2);
  EXPECT_EQ(Run("job delete --yes " + id).exit_code, 0);
  EXPECT_EQ(fake_.jobs.size(), 0);
  EXPECT_THAT(Run("worker list").out, HasSubstr("READY"));
  EXPECT_THAT(Run("worker drain w1").out, HasSubstr("DRAINED")) << "it has no job";
  EXPECT_THAT(Run("worker undrain w1").out, HasSubstr("READY"));
  EXPECT_EQ(Run("worker drain w2").exit_code, 3);
  EXPECT_EQ(Run("worker remove w1").out, "w1  removed\n");
  EXPECT_EQ(Run("worker remove w2").exit_code, 3);
  for (const char* command : {"worker drain ''", "worker undrain ''", "job show ''", "job cancel ''", "job wait ''"}) {
    const Result empty = Run(command);
    EXPECT_EQ(empty.exit_code, 2) << command;
    EXPECT_THAT(empty.err, HasSubstr(": the value must not be empty\n")) << command;
  }
  EXPECT_EQ(Run("health").exit_code, 0);
}

TEST_F(Ampctl, HealthHasALineForEachCheckAndAnExitCode) {
  EXPECT_EQ(Run("health").out, fake_.address() + " is serving\n") << "this server has no checks";
  grpc::HealthCheckServiceInterface* const health = fake_.server->GetHealthCheckService();
  for (const char* check : {"disk", "data-directory", "descriptors"}) {
    health->SetServingStatus(check, true);
  }
  const Result good = Run("health");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.out, fake_.address() +
                          " is serving\n"
                          "ok     disk: has room for new jobs\n"
                          "ok     data-directory: is in place\n"
                          "ok     descriptors: there is room for connections and files\n");
  health->SetServingStatus("disk", false);
  health->SetServingStatus("", false);
  const Result bad = Run("health");
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out,
              testing::StartsWith(fake_.address() + " is not serving\nfailed disk: is nearly full, and new jobs are "));
  const Result json = Run("health -o jsonl");
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.out, HasSubstr(R"("status":"NOT_SERVING","checks":{"disk":false,"data-directory":true,)"));
  EXPECT_EQ(Run("health", "AMPD_ADDRESS=127.0.0.1:1").exit_code, 5);
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

TEST_F(Ampctl, PolicyListNamesEveryPresetWithoutAServer) {
  const Result result = Run("policy list", "AMPD_ADDRESS=127.0.0.1:1");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("megatron-fp16"));
  EXPECT_THAT(result.out, HasSubstr("auto"));
  EXPECT_THAT(Run("policy list -q", "AMPD_ADDRESS=127.0.0.1:1").out, HasSubstr("\ntorch-amp-bf16\n"));
}

TEST_F(Ampctl, PolicyShowAsksForTheJobFilesModelAndRulesUnderThePresetOfTheCommandLine) {
  Write("job.yaml",
        "model: {mlp: {hidden: [8]}}\nprecision: {preset: bf16, module_rules: [{match: x, compute: fp32}]}\n"
        "optimizer: {sgd: {learning_rate: 1}}\n");
  const Result result = Run("policy show apex-o2 -f job.yaml --device cpu");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "preset apex-o2\nop aten.linear.default lower\n");
  EXPECT_THAT(result.err, HasSubstr("warning: module_rules: \"x\" matches no module"));
  const auto requests = fake_.jobs.script()->policy_requests;
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].model().mlp().hidden(0), 8);
  EXPECT_EQ(requests[0].precision().preset(), "apex-o2");
  EXPECT_EQ(requests[0].precision().module_rules_size(), 1);
  EXPECT_TRUE(requests[0].optimizer().has_sgd());
  EXPECT_EQ(requests[0].device().kind(), v1::Device::CPU);
}

TEST_F(Ampctl, PolicyShowNeedsAPresetOrAJobFile) {
  const Result result = Run("policy show");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("give one of the presets"));
  EXPECT_EQ(Run("policy show bf16 --device tpu").exit_code, 2);
}

TEST_F(Ampctl, ADryRunShowsThePolicyAsCommentsOfItsYaml) {
  Write("job.yaml", "name: x\nprecision: {preset: bf16}\ndata:\n  batch_size: 4\n");
  const Result result = Run("job submit -f job.yaml --dry-run");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string warning = "# warning: module_rules: \"x\" matches no module\n";
  EXPECT_THAT(result.out, HasSubstr("# On w1/gpu0:\n# preset bf16\n"));
  EXPECT_THAT(result.out, HasSubstr("# op aten.linear.default lower\n" + warning));
  EXPECT_THAT(result.out, HasSubstr("# On a CPU with avx512_bf16:\n" + warning)) << "it may run there too";
  EXPECT_EQ(result.out.find("\nop "), std::string::npos);
  fake_.workers.SetDevice(v1::Device::CPU);
  const Result on_cpus = Run("job submit -f job.yaml --dry-run");
  EXPECT_THAT(on_cpus.out, HasSubstr("# On w1/cpu:\n# preset bf16\n"));
  EXPECT_THAT(on_cpus.out, Not(HasSubstr("# On a GPU"))) << "no worker has one";
}

TEST_F(Ampctl, ADryRunOfAJobThatNoWorkerFits_WarnsWithTheReason) {
  Write("job.yaml", kGoodJob);
  v1::Pending* const pending = &fake_.jobs.script()->pending;
  fake_.jobs.script()->no_worker_fits = true;
  pending->set_reason(v1::PendingReason::INSUFFICIENT_MEMORY);
  pending->set_message("needs 8.0 GiB, 4.0 GiB free (w1/cpu)");
  EXPECT_THAT(Run("job submit -f job.yaml --dry-run").err, Not(HasSubstr("warning:"))) << "another job may hold it";
  pending->set_no_worker_fits(true);
  const Result result = Run("job submit -f job.yaml --dry-run");
  EXPECT_EQ(result.exit_code, 0) << "a worker may come";
  EXPECT_EQ(result.err,
            "warning: no worker can run this job now, so it would wait until one can: needs 8.0 GiB, 4.0 GiB free "
            "(w1/cpu)  [INSUFFICIENT_MEMORY]\n  try: lower resources.memory_bytes in the job file, or start a worker "
            "with more memory\njob.yaml is valid; nothing was submitted\n");
  EXPECT_THAT(Run("job submit -f job.yaml --dry-run -o json").out, HasSubstr("\"reason\":\"INSUFFICIENT_MEMORY\""));
  pending->set_reason(v1::PendingReason::NO_MATCHING_DEVICE);
  EXPECT_THAT(Run("job submit -f job.yaml --dry-run").err, HasSubstr("\n  try: see the workers and their devices: "));
}

TEST_F(Ampctl, ADryRunShowsTheMemoryOfAStepAsCommentsOfItsYaml) {
  Write("job.yaml", "name: x\nprecision: {preset: bf16}\ndata:\n  batch_size: 4\nresources: {memory_bytes: 4096}\n");
  Result result = Run("job submit -f job.yaml --dry-run");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("# Peak memory of a step, and the largest batch that fits into 4.0 KiB:\n# PRECISION"));
  EXPECT_THAT(result.out, ContainsRegex("# bf16 +CPU +3.0 MiB .* 77\n"));
  result = Run("job submit -f job.yaml --dry-run -o json");
  EXPECT_EQ(result.out.find("# "), std::string::npos) << "JSON has no comments";
  result = Run("job submit -f job.yaml --set resources.memory_bytes=0 --dry-run");
  EXPECT_THAT(
      result.out,
      HasSubstr("the largest batch that fits on the suitable devices with the least and with the most memory:\n"));
  EXPECT_THAT(result.out, ContainsRegex("# bf16 .* 400 on w1/cpu \\(4.0 GiB\\), 1600 on w2/cpu \\(16.0 GiB\\)\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("no worker that serves now")));
  fake_.jobs.script()->no_worker_fits = true;
  result = Run("job submit -f job.yaml --set resources.memory_bytes=0 --dry-run");
  EXPECT_EQ(result.exit_code, 0) << "a worker may come";
  EXPECT_THAT(result.err,
              HasSubstr("no connected worker can run the job (once it is submitted, ampctl job explain says why); "
                        "workers: ampctl worker list -o wide\n"));
}

}  // namespace
}  // namespace ampd::client
