// Tests the commands that list things, and the ways to name a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands/sorting.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

class AmpctlLists : public Ampctl {
 protected:
  // Adds jobs with these names. Returns their ids.
  std::vector<std::string> AddJobs(const std::vector<std::string>& names, v1::Job::State state = v1::Job::QUEUED) {
    std::vector<std::string> ids;
    for (const std::string& name : names) {
      ids.push_back(fake_.jobs.Add(name, state).id());
    }
    return ids;
  }
  void SetPending(v1::PendingReason::Code reason, const std::string& message, bool no_worker_fits) {
    v1::Pending pending;
    pending.set_reason(reason);
    pending.set_message(message);
    pending.set_no_worker_fits(no_worker_fits);
    fake_.jobs.script()->pending = pending;
  }
  size_t NumLists() { return fake_.jobs.script()->list_requests.size(); }
  size_t NumFinds() { return fake_.jobs.script()->find_requests.size(); }
};

TEST_F(AmpctlLists, TheWholeListIsPrintedPageByPage) {
  AddJobs({"a", "b", "c", "d", "a-much-longer-name"});
  const std::vector<std::string> lines = LinesOf(Run("job list").out);
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_EQ(NumLists(), 3u);
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(), [](const auto& line) { return absl::StrContains(line, "STATE"); }), 1)
      << "one line of headings";
  EXPECT_EQ(LinesOf(Run("job list -o csv").out).size(), 6u);
  EXPECT_EQ(LinesOf(Run("job list -o jsonl").out).size(), 5u);
  const std::string json = Run("job list -o json").out;
  EXPECT_THAT(json, AllOf(StartsWith("[{"), ::testing::EndsWith("}]\n")));
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 5);
}

TEST_F(AmpctlLists, AListThatBreaksOff_FailsAndItsJsonHasNoEnd) {
  AddJobs({"a", "b", "c"});
  fake_.jobs.script()->refuse_later_pages = true;
  const Result result = Run("job list -o json");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.out, AllOf(StartsWith("[{"), Not(HasSubstr("]\n"))));
}

TEST_F(AmpctlLists, AQueuedJobShowsWhyItWaits) {
  const std::string id = AddJobs({"a"}).front();
  SetPending(v1::PendingReason::DEVICE_BUSY, "the device holds another attempt (w1/cpu)", false);
  EXPECT_THAT(LinesOf(Run("job list").out)[1], ::testing::EndsWith("  DEVICE_BUSY"));
  EXPECT_THAT(Run("job list -o wide").out, HasSubstr("the device holds another attempt (w1/cpu)"));
  EXPECT_THAT(Run("job show " + id).out,
              HasSubstr("\nwaits       DEVICE_BUSY: the device holds another attempt (w1/cpu)\n"));
  EXPECT_THAT(Run("job show -o json " + id).out, HasSubstr("\"reason\": \"DEVICE_BUSY\""));
}

TEST_F(AmpctlLists, SubmitWarnsIfNoWorkerCouldRunTheJob) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  SetPending(v1::PendingReason::DEVICE_BUSY, "the device holds another attempt (w1/cpu)", false);
  EXPECT_THAT(Run("job submit -f job.yaml").err, Not(HasSubstr("warning")));
  SetPending(v1::PendingReason::NO_MATCHING_DEVICE, "the job wants a GPU (w1/cpu)", true);
  const Result result = Run("job submit -f job.yaml");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("warning: no worker can run this job now, and it waits until one can: the job wants "
                        "a GPU (w1/cpu)  [NO_MATCHING_DEVICE]\n  try: see what each device lacks: ampctl "
                        "job explain j-"));
  EXPECT_EQ(LinesOf(result.out).size(), 1u) << "stdout has the id only";
  SetPending(v1::PendingReason::NO_WORKERS, "no worker has ever reported a device", true);
  EXPECT_THAT(Run("job submit -q -f job.yaml").err, HasSubstr("try: start a worker: ampd-worker --server ADDRESS"));
  const std::string ended = AddJobs({"b"}, v1::Job::FAILED).front();
  EXPECT_THAT(Run("job retry " + ended).err, HasSubstr("warning: no worker can run this job now"));
}

TEST_F(AmpctlLists, EveryCommandTakesANameOrTheBeginningOfAnId) {
  const std::string id = AddJobs({"resnet"}, v1::Job::SUCCEEDED).front();
  for (const char* const command :
       {"job show", "job explain", "job events", "job points", "job watch", "job logs", "job wait",
        "job scale --set-scale 8", "job cancel", "job pause", "job resume", "job retry --name r1",
        "job clone --name r2", "checkpoint list", "checkpoint show", "artifact list --job"}) {
    for (const std::string& text : {std::string("resnet"), id}) {
      const Result result = Run(absl::StrCat(command, " ", text));
      EXPECT_EQ(result.exit_code, 0) << command << " " << text << "\n" << result.err;
    }
  }
  EXPECT_EQ(fake_.jobs.script()->clones.front().id(), id);
  EXPECT_EQ(fake_.jobs.script()->updates.front().id(), id);
  EXPECT_EQ(fake_.jobs.script()->log_requests.front().id(), id);
  const size_t before = NumFinds();
  Run("job show " + id);
  EXPECT_EQ(NumFinds(), before) << "a whole id needs no look-up";
  EXPECT_EQ(Run("checkpoint delete --yes resnet 20").exit_code, 0);
  EXPECT_EQ(fake_.jobs.script()->deleted_checkpoints.size(), 1u);
  EXPECT_EQ(Run("job delete --yes resnet").exit_code, 0);
  EXPECT_THAT(Run("job show " + id).err, HasSubstr("JOB_NOT_FOUND"));
}

TEST_F(AmpctlLists, AnAmbiguousName_IsRefusedWithTheJobsThatItMayMean) {
  const std::vector<std::string> ids = AddJobs({"resnet", "bert", "resnet"}, v1::Job::RUNNING);
  for (const char* command : {"job show", "job cancel", "job logs", "checkpoint list"}) {
    const Result result = Run(absl::StrCat(command, " resnet"));
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_THAT(result.err, StartsWith("error: \"resnet\" matches 2 jobs; repeat the command with the id of one  "
                                       "[JOB_AMBIGUOUS]\n  " +
                                       ids[2] + "  resnet  RUNNING  "))
        << command;
    EXPECT_THAT(result.err, HasSubstr("\n  " + ids[0] + "  resnet  RUNNING  "));
  }
  EXPECT_THAT(Run("job show j-aaa").err, HasSubstr("matches more than 2 jobs"));
  EXPECT_EQ(Run("job show j-aaa").exit_code, 2);
  EXPECT_THAT(Run("job show j-z").err,
              HasSubstr("to name a job by the beginning of its id, give \"j-\" and at least 3 more characters"));
  const Result unknown = Run("job show nosuch");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("there is no job with the id or the name \"nosuch\"  [JOB_NOT_FOUND]\n  try: list "
                                     "what there is: ampctl job list"));
  const std::string capitals = absl::AsciiStrToUpper(ids[1]);
  EXPECT_THAT(Run("job show " + capitals).err,
              HasSubstr(absl::StrCat("\"", capitals, "\"; did you mean '", ids[1], "'?  [JOB_NOT_FOUND]")));
  EXPECT_THAT(Run("job show J-zz").err, Not(HasSubstr("did you mean")));
  EXPECT_THAT(Run("job show train.yml").err,
              HasSubstr("\"train.yml\"; to check a job file: ampctl job submit --dry-run -f FILE  [JOB_NOT_FOUND]"));
}

TEST_F(AmpctlLists, OneWrongNameOfSeveral_DoesNotStopTheOthers) {
  const std::vector<std::string> ids = AddJobs({"a", "b"}, v1::Job::RUNNING);
  const Result result = Run("job cancel a nosuch b");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(LinesOf(result.out), ElementsAre(StartsWith(ids[0]), StartsWith(ids[1])));
}

TEST_F(AmpctlLists, CompletionOffersIdsAndNames) {
  const std::vector<std::string> ids = AddJobs({"resnet", "resnet", "bert"});
  const std::vector<std::string> words = LinesOf(Run("__complete job show ''").out);
  EXPECT_THAT(words, ElementsAre(ids[0], ids[1], ids[2], "bert")) << "no name that would be refused as ambiguous";
  EXPECT_THAT(LinesOf(Run("__complete job show be").out), ElementsAre("bert"));
}

TEST_F(AmpctlLists, SortOrdersTheWholeListBeforeTheLimit) {
  AddJobs({"m", "z", "a", "q"});
  const auto names = [this](const std::string& options) {
    std::string found;
    for (const std::string& line : LinesOf(Run("job list --no-headers " + options).out)) {
      found += std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty()))[1];
    }
    return found;
  };
  EXPECT_EQ(names("--sort name"), "amqz");
  EXPECT_EQ(names("--sort name,desc"), "zqma");
  EXPECT_EQ(names("--sort name --limit 2"), "am");
  EXPECT_EQ(names("--sort loss,desc"), "mzaq") << "jobs without a loss stay in the server's order";
  const Result part = Run("job list --sort name --limit 2 -o json");
  EXPECT_THAT(part.err, HasSubstr("2 of 4 jobs; all jobs: --limit 0\n"));
  EXPECT_THAT(part.out, AllOf(StartsWith("{"), HasSubstr("\"totalSize\": \"4\"")));
  const Result wrong = Run("job list --sort colour");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'colour' is no field to sort by; fields are id, name, state"));
  EXPECT_EQ(Run("job list --sort name --page-token 2").exit_code, 2);
  EXPECT_EQ(Run("worker list --sort jobs,desc").exit_code, 0);
  EXPECT_EQ(Run("artifact list --sort size").exit_code, 0);
}

TEST(SortBuffer, KeepsTheFirstOfAll_StablyAndWithUnknownValuesLast) {
  const auto sorted = [](bool is_descending, size_t limit) {
    SortBuffer<std::string> buffer(is_descending, limit);
    buffer.Add(2.0, "b1");
    buffer.Add(SortValue(), "none");
    buffer.Add(3.0, "c");
    buffer.Add(2.0, "b2");
    buffer.Add(1.0, "a");
    EXPECT_EQ(buffer.num_added(), 5u);
    return buffer.Take();
  };
  EXPECT_THAT(sorted(false, 0), ElementsAre("a", "b1", "b2", "c", "none"));
  EXPECT_THAT(sorted(true, 0), ElementsAre("c", "b1", "b2", "a", "none"));
  EXPECT_THAT(sorted(false, 2), ElementsAre("a", "b1"));
  EXPECT_THAT(sorted(true, 1), ElementsAre("c"));
}

TEST_F(AmpctlLists, TheFilterIsSentToTheServer) {
  Run("job list --filter 'state=running OR name!=\"a b\"'");
  EXPECT_EQ(fake_.jobs.script()->list_requests.front().filter(), "state=running OR name!=\"a b\"");
}

TEST_F(AmpctlLists, WatchInAPipe_PrintsTheListAndThenOnlyWhatChanges) {
  const std::vector<std::string> ids = AddJobs({"a", "b"}, v1::Job::RUNNING);
  fake_.jobs.script()->steps_per_list = 5;
  const std::vector<std::string> lines = LinesOf(Run("job list --watch --interval 50ms | head -n 5").out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], StartsWith("ID"));
  EXPECT_THAT(lines[1], StartsWith(ids[0]));
  EXPECT_THAT(lines[2], StartsWith(ids[1]));
  EXPECT_THAT(lines[3], AllOf(StartsWith(ids[0]), HasSubstr("  5  ")));
  EXPECT_THAT(lines[4], AllOf(StartsWith(ids[0]), HasSubstr("  10 ")));
  const std::vector<std::string> json = LinesOf(Run("job list --watch --interval 50ms -o jsonl | head -n 3").out);
  ASSERT_EQ(json.size(), 3u);
  EXPECT_THAT(json[2], AllOf(StartsWith("{"), HasSubstr(ids[0])));
}

TEST_F(AmpctlLists, WatchInAPipe_EndsWhenItsReaderHasGone) {
  AddJobs({"a"});
  EXPECT_EQ(LinesOf(Run("job list --watch --interval 50ms | head -n 1").out).size(), 1u) << "although nothing changes";
  EXPECT_EQ(LinesOf(Run("worker list --watch --interval 50ms | head -n 1").out).size(), 1u);
}

TEST_F(AmpctlLists, WatchRefusesFormatsThatCannotBeContinued) {
  for (const char* format : {"json", "yaml", "name"}) {
    const Result result = Run(absl::StrCat("job list --watch -o ", format));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--watch has the formats table, wide, jsonl and csv only"));
  }
  EXPECT_EQ(Run("job list --watch --page-token 2").exit_code, 2);
  EXPECT_THAT(Run("job list --watch --interval 0s").err, HasSubstr("'0s' is not a duration of at least 50ms"));
}

TEST_F(AmpctlLists, CsvHasHeadingsAndOneLineAnItem) {
  const std::string id = AddJobs({"a"}).front();
  SetPending(v1::PendingReason::DEVICE_BUSY, "busy, \"held\"", false);
  const std::vector<std::string> jobs = LinesOf(Run("job list -o csv").out);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_THAT(jobs[0], StartsWith("id,name,state,reason,message,step,total_steps,loss,precision,worker,"));
  EXPECT_THAT(jobs[1], StartsWith(id + ",a,QUEUED,DEVICE_BUSY,\"busy, \"\"held\"\"\",0,"));
  EXPECT_THAT(LinesOf(Run("job list -o csv --no-headers").out), ElementsAre(StartsWith(id)));
  EXPECT_THAT(LinesOf(Run("job points -o csv " + id).out),
              ElementsAre("attempt,step,loss,grad_norm,loss_scale,skipped,learning_rate,samples_per_second,"
                          "data_wait_seconds,memory_allocated_bytes,memory_peak_bytes,time,eval_loss,eval_accuracy,"
                          "eval_perplexity,eval_f1,eval_top5_accuracy,flops_per_second,mfu,power_watts,"
                          "device_utilization,memory_reserved_bytes,allocation_retries",
                          "1,1,0.5,inf,65536,false,0.125,,,,,,,,,,,,,,,,",
                          "1,2,0.25,inf,65536,true,0.125,,,,,,,,,,,,,,,,", "1,0,,,,,,,,,,,0,0.75,,,,,,,,,"));
  fake_.jobs.script()->trains_gans = true;
  EXPECT_THAT(LinesOf(Run("job points -o csv " + id).out)[2], StartsWith("1,2,0.25,inf,3.5,0.75,65536,true,"));
  EXPECT_THAT(LinesOf(Run("job events -o csv " + id).out)[2], HasSubstr(",2,,2,OVERFLOW,,scale=65536,"));
  EXPECT_THAT(LinesOf(Run("worker list -o csv").out)[1], StartsWith("w1,READY,0,,1.2.3,"));
  EXPECT_THAT(LinesOf(Run("checkpoint list -o csv " + id).out)[2], StartsWith("20,2,4096,0.25,,w2,false,"));
  EXPECT_THAT(LinesOf(Run("policy list -o csv").out)[0], "preset,summary");
  EXPECT_THAT(LinesOf(Run("artifact list -o csv").out), ElementsAre(StartsWith("name,size_bytes,")))
      << "an empty list has headings";
  EXPECT_THAT(Run("job show -o csv " + id).err, HasSubstr("ampctl job show does not support the format 'csv'"));
}

}  // namespace
}  // namespace ampd::client
