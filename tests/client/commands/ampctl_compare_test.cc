#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/client/compare/planted_runs.h"

namespace ampd::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] = "name: fashion\ndata:\n  batch_size: 32\ntrain: {steps: 200, seed: 5}\n";

// Tests of `ampctl compare` on a fake server, which makes the metric points of its jobs with RecordOf.
class AmpctlCompare : public Ampctl {
 protected:
  AmpctlCompare() {
    fake_.jobs.script()->points_of = [](const v1::Job& job) {
      const std::string& preset = job.spec().precision().preset();
      return RecordOf({.precision = preset, .seed = job.spec().train().seed(), .loss = preset == "fp16" ? 0.7 : 0.5})
          .points;
    };
  }

  // Adds two finished jobs, with fp32 and bf16. bf16 takes half the time, so it is the policy to recommend.
  void PutFinished(const std::string& label = "", v1::Job::State state = v1::Job::SUCCEEDED) {
    int order = 0;
    for (const PlantedJob& planted : {PlantedJob{.precision = "fp32", .step_seconds = 0.02},
                                      PlantedJob{.precision = "bf16", .step_seconds = 0.01}}) {
      v1::Job job = JobOf(planted);
      job.set_state(state);
      job.set_submit_order(++order);
      if (!label.empty()) {
        (*job.mutable_spec()->mutable_labels())["compare"] = label;
      }
      fake_.jobs.Put(job);
    }
  }
};

TEST_F(AmpctlCompare, AJobThatIsGivenTwice_IsRefused) {
  PutFinished();
  const Result result = Run("compare j-fp320 j-fp320");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("job j-fp320 is given twice; name each job once"));
  EXPECT_THAT(Run("compare j-fp320 j-bf160 --baseline FP32").err,
              HasSubstr("the policies are fp32, bf16; did you mean 'fp32'?"));
}

TEST_F(AmpctlCompare, SaysWhichJobsItWaitsFor) {
  PutFinished("", v1::Job::RUNNING);
  fake_.jobs.script()->ends_in = v1::Job::SUCCEEDED;
  const Result result = Run("compare j-fp320 j-bf160");
  EXPECT_THAT(result.err, HasSubstr("waiting for the end of j-fp320 (fashion-fp32, RUNNING), j-bf160"));
  EXPECT_THAT(result.err, HasSubstr("; Ctrl-C ends the wait and not the jobs\n"));
}

TEST_F(AmpctlCompare, ABaselineThatNoJobHas_IsRefusedBeforeTheWait) {
  PutFinished("", v1::Job::RUNNING);
  const Result result = Run("compare j-fp320 j-bf160 --baseline fp8");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("error: --baseline: no policy is named 'fp8'; the policies are fp32, bf16"));
}

TEST_F(AmpctlCompare, TheCommandForTheVerdict_HasTheOptionsOfThisOne) {
  Write("job.yaml", kJob);
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  const Result result = Run("compare -f job.yaml --policies fp32,bf16 --baseline bf16 --price 2.5 --html 'a b.html'");
  const std::string label = fake_.jobs.Specs()[0].labels().at("compare");
  EXPECT_THAT(result.err, HasSubstr("verdict:  ampctl compare --label " + label +
                                    " --baseline bf16 --price 2.5 --html 'a b.html'\n"));
  EXPECT_THAT(Run("compare -f job.yaml --policies fp32,bf16 --html 'r;v2.html'").err,
              HasSubstr(" --html 'r;v2.html'\n"));
  EXPECT_THAT(Run("compare -f job.yaml --policies fp32,bf16 --html=-r.html").err, HasSubstr(" --html ./-r.html\n"));
}

TEST_F(AmpctlCompare, AJobFileInPlaceOfAJob_IsSuggestedAsAShellReadsIt) {
  Write("a b.yaml", kJob);
  EXPECT_THAT(Run("compare 'a b.yaml'").err, HasSubstr("give it with -f: ampctl compare -f 'a b.yaml'\n"));
}

TEST_F(AmpctlCompare, SubmitsEveryPolicyUnderEverySeedOnOneDeviceWithOneLabel) {
  Write("job.yaml", kJob);
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  const Result result = Run("compare -f job.yaml --policies fp32,bf16 --repeats 2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> names;
  std::vector<uint64_t> seeds;
  const std::vector<v1::JobSpec> specs = fake_.jobs.Specs();
  for (const v1::JobSpec& spec : specs) {
    names.push_back(spec.name());
    seeds.push_back(spec.train().seed());
    EXPECT_EQ(spec.labels().at("compare"), specs[0].labels().at("compare"));
    EXPECT_EQ(spec.labels().at("compare-policy"), spec.precision().preset());
    EXPECT_EQ(spec.resources().worker(), "w1");
    EXPECT_EQ(spec.resources().kind(), v1::ResourceSpec::GPU);
  }
  EXPECT_THAT(names, ElementsAre("fashion-fp32-s5", "fashion-bf16-s5", "fashion-fp32-s6", "fashion-bf16-s6"))
      << "the policies take turns";
  EXPECT_THAT(seeds, ElementsAre(5, 5, 6, 6));
  EXPECT_THAT(result.err, HasSubstr("submitted 4 jobs as comparison c-"));
  EXPECT_THAT(result.err, HasSubstr("verdict:  ampctl compare --label " + specs[0].labels().at("compare")));
  EXPECT_THAT(result.out, HasSubstr("Keep fp32"));
}

TEST_F(AmpctlCompare, IfAPolicyIsRefused_SubmitsNothingAndNamesThePolicyAndTheLine) {
  Write("job.yaml", std::string(kJob) + "precision: {preset: bf16}\n");
  fake_.jobs.script()->refused_preset = "fp8";
  const Result result = Run("compare -f job.yaml --policies fp32,fp8");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(fake_.jobs.size(), 0);
  EXPECT_THAT(result.err, HasSubstr("the server refuses the job under the policy fp8, so nothing was submitted"));
  EXPECT_THAT(result.err, HasSubstr("error: job.yaml:5:13: precision.preset: fp8 does not fit the model"));
}

TEST_F(AmpctlCompare, ThePolicyFile_IsTheJobFilesOwnPrecision) {
  Write("job.yaml", std::string(kJob) + "precision: {preset: fp16, allow_unsafe: true}\n");
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  const Result replaced = Run("compare -f job.yaml --policies fp32,fp16");
  EXPECT_FALSE(fake_.jobs.Specs().back().precision().allow_unsafe());
  EXPECT_THAT(replaced.err, HasSubstr("each policy replaces all precision settings of job.yaml"));
  const Result kept = Run("compare -f job.yaml --policies fp32,file");
  EXPECT_TRUE(fake_.jobs.Specs().back().precision().allow_unsafe());
  EXPECT_EQ(fake_.jobs.Specs().back().labels().at("compare-policy"), "file");
  EXPECT_THAT(kept.err, Not(HasSubstr("replaces the whole precision")));
}

TEST_F(AmpctlCompare, AFileWhosePrecisionIsAListedPreset_IsRefusedBeforeAnyJob) {
  Write("job.yaml", std::string(kJob) + "precision: {preset: bf16}\n");
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  const Result result = Run("compare -f job.yaml --policies file,bf16,fp32 --baseline bf16");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("error: --policies: 'file' and 'bf16' are one policy, because the precision of "
                                    "job.yaml is that of bf16; leave out 'file'\n"));
  EXPECT_EQ(fake_.jobs.size(), 0);
  EXPECT_EQ(Run("compare -f job.yaml --policies file,fp32").exit_code, 0);
}

TEST_F(AmpctlCompare, ABaselineMatchesTheLabelsOfEachRunOfAPolicy) {
  PutFinished("c-12345678");
  v1::Job first = JobOf({.precision = "bf16", .step_seconds = 0.01});
  first.set_id("j-file0");
  (*first.mutable_spec()->mutable_labels())["compare"] = "c-12345678";
  (*first.mutable_spec()->mutable_labels())["compare-policy"] = "file";
  fake_.jobs.Put(first);
  v1::Job second = JobOf({.precision = "bf16", .step_seconds = 0.01});
  (*second.mutable_spec()->mutable_labels())["compare"] = "c-12345678";
  (*second.mutable_spec()->mutable_labels())["compare-policy"] = "bf16";
  second.set_submit_order(3);
  fake_.jobs.Put(second);
  const Result result = Run("compare --label c-12345678 --baseline bf16");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("file"));
}

TEST_F(AmpctlCompare, ALabel_WaitsForItsJobsAndGivesTheVerdict) {
  PutFinished("c-12345678", v1::Job::RUNNING);
  fake_.jobs.Add("other", v1::Job::RUNNING);
  fake_.jobs.script()->ends_in = v1::Job::SUCCEEDED;
  const Result result = Run("compare --label c-12345678");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 of 2: fashion-fp32 SUCCEEDED"));
  EXPECT_THAT(result.err, HasSubstr("2 of 2: fashion-bf16 SUCCEEDED"));
  EXPECT_THAT(result.out, HasSubstr("Take bf16: its steps take 50% less time than those of fp32"));
  EXPECT_EQ(Run("compare --label c-0").exit_code, 3);
}

TEST_F(AmpctlCompare, CtrlC_LeavesTheJobsAndSaysHowToGetTheVerdict) {
  PutFinished("c-12345678", v1::Job::RUNNING);
  fake_.jobs.script()->hold_watches = true;
  const pid_t pid = fork();
  if (pid == 0) {
    const bool placed = freopen((folder_ + "/out").c_str(), "w", stdout) != nullptr &&
                        freopen((folder_ + "/err").c_str(), "w", stderr) != nullptr;
    if (placed) {
      execl(AMPD_BIN_DIR "/ampctl", "ampctl", "--address", fake_.address().c_str(), "compare", "--label", "c-12345678",
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
  EXPECT_THAT(*ReadFile(folder_ + "/err", 1 << 20),
              HasSubstr("To get the verdict when they have ended: ampctl --address " + fake_.address() +
                        " compare --label c-12345678"));
}

TEST_F(AmpctlCompare, FinishedJobs_AreComparedInEveryFormat) {
  PutFinished();
  const std::string command = "compare j-fp320 j-bf160";
  const Result table = Run(command);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, ContainsRegex("time of the steps +4.0 s +2.0 s  -50%\n"));
  EXPECT_THAT(table.out, ContainsRegex("RUN +SMOOTHED +VALUE +STEP +TIME +MEMORY\n"));
  EXPECT_THAT(table.out, HasSubstr("Not measured: energy ("));
  EXPECT_THAT(Run(command + " -o markdown").out, StartsWith("# Precision policies for fashion\n\n**Take bf16: "));
  EXPECT_THAT(Run(command + " -o html").out, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(Run(command + " -o json").out, HasSubstr("\"recommended\": \"bf16\""));
  EXPECT_THAT(Run(command + " -o yaml").out, HasSubstr("recommended: bf16"));
  EXPECT_THAT(Run(command + " -o csv").err, HasSubstr("ampctl compare does not support the format 'csv'"));
}

TEST_F(AmpctlCompare, TheHtmlFile_IsWrittenButNeverReplacesAFileUnasked) {
  PutFinished();
  const std::string command = "compare j-fp320 j-bf160 --html report.html";
  const Result written = Run(command);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("report: report.html"));
  EXPECT_THAT(*ReadFile(folder_ + "/report.html", 1 << 24), HasSubstr("<b>Take bf16"));
  Write("report.html", "mine");
  const Result refused = Run(command);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err,
              HasSubstr("report.html already exists; write to another file, or use --force to replace this one"));
  EXPECT_EQ(*ReadFile(folder_ + "/report.html", 1 << 24), "mine");
  EXPECT_EQ(Run(command + " --force").exit_code, 0);
  EXPECT_THAT(*ReadFile(folder_ + "/report.html", 1 << 24), StartsWith("<!DOCTYPE html>"));
}

TEST_F(AmpctlCompare, AFileThatAppearsDuringTheTraining_IsKept_AndTheReportIsPrinted) {
  Write("job.yaml", kJob);
  fake_.jobs.script()->created_state = v1::Job::SUCCEEDED;
  const auto points_of = fake_.jobs.script()->points_of;
  fake_.jobs.script()->points_of = [points_of, this](const v1::Job& job) {
    Write("report.html", "mine");
    return points_of(job);
  };
  const Result result = Run("compare -f job.yaml --policies fp32,bf16 --html report.html");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Keep fp32"));
  EXPECT_THAT(result.err, HasSubstr("error: report.html already exists; write to another file, or use --force to "
                                    "replace this one\n  to write the report of these jobs to another file: ampctl "
                                    "compare --label " +
                                    fake_.jobs.Specs()[0].labels().at("compare") + " --html FILE\n"));
  EXPECT_EQ(*ReadFile(folder_ + "/report.html", 1 << 24), "mine");
}

TEST_F(AmpctlCompare, IfNoPolicyCanBeTaken_ExitsWithOne) {
  PutFinished("", v1::Job::FAILED);
  const Result result = Run("compare j-fp320 j-bf160");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("Take none of these policies"));
}

TEST_F(AmpctlCompare, PricesAreShownWithTheirUnitsOfTime) {
  PutFinished();
  const Result result = Run("compare j-fp320 j-bf160 --price 1800 --energy-price 0.3");
  EXPECT_THAT(result.out, ContainsRegex("price of a run +2 +1  -50%\n"));
  EXPECT_THAT(result.out, HasSubstr("--energy-price has no effect"));
}

TEST_F(AmpctlCompare, WrongUsage_IsRefusedWithWhatToDo) {
  Write("job.yaml", kJob);
  PutFinished();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "give either a job file (-f FILE), or an earlier comparison (--label ID), or the ids of at least two jobs"},
      {"-f job.yaml --label c-1", "give either a job file"},
      {"j-fp320", "one job cannot be compared"},
      {"job.yaml", "job.yaml is a job file, not a job; give it with -f: ampctl compare -f job.yaml"},
      {"j-fp320 j-bf160 --repeats 3", "--policies, --set and --repeats need a job file (-f FILE)"},
      {"-f job.yaml --policies fp32", "a comparison needs at least two policies"},
      {"-f job.yaml --policies fp32,bf61", "there is no preset 'bf61'; did you mean 'bf16'?"},
      {"-f job.yaml --policies fp32,fp32", "the policy 'fp32' is listed twice"},
      {"-f job.yaml --policies fp32,,bf16", "a name in the list is empty"},
      {"-f job.yaml --baseline bf61", "--baseline: 'bf61' is not one of the --policies fp32,bf16,fp16"},
      {"j-fp320 j-bf160 --baseline fp16", "--baseline: no policy is named 'fp16'; the policies are fp32, bf16"},
      {"-f job.yaml --repeats 0", "'0' is not a whole number of at least 1"},
      {"-f job.yaml --repeats 100", "3 policies with 100 repeats are 300 jobs; at most 200 can be compared"},
      {"-f job.yaml --price -1", "'-1' is not a number above 0"},
      {"-f missing.yaml", "cannot read missing.yaml"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = Run("compare " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message)) << arguments;
  }
  EXPECT_EQ(fake_.jobs.size(), 2) << "nothing was submitted";
  EXPECT_EQ(Run("compare j-fp320 j-nowhere").exit_code, 3);
}

}  // namespace
}  // namespace ampd::client
