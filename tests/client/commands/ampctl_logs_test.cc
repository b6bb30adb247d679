// Tests `ampctl job logs`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AmpctlLogs : public Ampctl {
 protected:
  // Adds a job with this number of attempts. logs[i] is the log of attempt i + 1. Returns the job's id.
  std::string AddJob(v1::Job::State state, int num_attempts, const std::vector<std::string>& logs) {
    job_ = fake_.jobs.Add("n", state);
    job_.set_num_attempts(num_attempts);
    fake_.jobs.Put(job_);
    for (const std::string& log : logs) {
      const int attempt = static_cast<int>(fake_.jobs.script()->attempt_logs.size()) + 1;
      fake_.jobs.script()->attempt_logs[attempt] = log;
    }
    return job_.id();
  }
  // Sets the state and the number of attempts that the job will have when ampctl reconnects. Several calls give the
  // records for several reconnections.
  void Then(v1::Job::State state, int num_attempts) {
    job_.set_state(state);
    job_.set_num_attempts(num_attempts);
    fake_.jobs.script()->later_records.push_back(job_);
  }

  v1::Job job_;
};

TEST_F(AmpctlLogs, Follow_ContinuesWithLaterAttemptsUntilTheJobEnds) {
  const std::string id = AddJob(v1::Job::RUNNING, 1, {"one\n", "two\n", "three\n"});
  Then(v1::Job::QUEUED, 1);
  Then(v1::Job::RUNNING, 3);
  Then(v1::Job::SUCCEEDED, 3);
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "one\ntwo\nthree\n");
  EXPECT_EQ(
      result.err,
      absl::StrCat("attempt 1 has ended; waiting for attempt 2. To see why the job waits: ampctl job explain ", id,
                   "\nattempt 2 begins\nattempt 3 begins\n"
                   "attempt 3 has ended; waiting for attempt 4. To see why the job waits: ampctl job explain ",
                   id, "\n"));
}

TEST_F(AmpctlLogs, Follow_SurvivesARestartOfTheServerBetweenAttempts) {
  const std::string id = AddJob(v1::Job::RUNNING, 1, {"one\n", "two\n"});
  Then(v1::Job::SUCCEEDED, 2);
  fake_.jobs.script()->unavailable_after_log = 3;
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "one\ntwo\n");
  EXPECT_EQ(fake_.jobs.script()->unavailable_after_log, 0) << "the fault never happened";
  EXPECT_EQ(fake_.jobs.script()->unavailable_streams, 0) << "the fault never happened";
}

TEST_F(AmpctlLogs, OneAttemptIsPrinted_WithoutFollowAndWithAttempt) {
  const std::string id = AddJob(v1::Job::SUCCEEDED, 2, {"one\n", "two\n"});
  EXPECT_EQ(Run("job logs " + id).out, "two\n");
  EXPECT_EQ(Run("job logs --attempt 1 " + id).out, "one\n");
  EXPECT_EQ(Run("job logs -f --attempt 1 " + id).out, "one\n");
}

TEST_F(AmpctlLogs, Follow_OfAJobThatHasNotStarted_WaitsAndSaysSo) {
  const std::string id = AddJob(v1::Job::QUEUED, 0, {"one\n"});
  Then(v1::Job::QUEUED, 0);
  Then(v1::Job::RUNNING, 1);
  Then(v1::Job::SUCCEEDED, 1);
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "one\n");
  EXPECT_THAT(result.err, testing::StartsWith(id +
                                              " has not started; waiting for attempt 1. To see why the job waits: "
                                              "ampctl job explain " +
                                              id + "\nattempt 1 has ended"))
      << "it says so once";
  EXPECT_THAT(Run("job logs -f -q " + id).err, Not(HasSubstr("has not started")));
}

TEST_F(AmpctlLogs, Follow_OfAPausedJob_NamesTheCommandThatResumesIt) {
  const std::string id = AddJob(v1::Job::PAUSED, 1, {"one\n"});
  Then(v1::Job::CANCELLED, 1);
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "attempt 1 has ended and the job is paused; waiting until it is resumed. To resume it: ampctl job resume " +
          id));
}

TEST_F(AmpctlLogs, Follow_OfAJobThatEndsBeforeItStarts_Ends) {
  const std::string id = AddJob(v1::Job::QUEUED, 0, {""});
  Then(v1::Job::CANCELLED, 0);
  const Result result = Run("job logs -f " + id);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("the trainer wrote nothing"));
}

TEST_F(AmpctlLogs, Tail_PrintsTheLastLines) {
  const std::string id = AddJob(v1::Job::SUCCEEDED, 2, {"a\nb\n", "c\nd\n\ne"});
  EXPECT_EQ(Run("job logs --tail 1 " + id).out, "e");
  EXPECT_EQ(Run("job logs --tail 3 " + id).out, "d\n\ne");
  EXPECT_EQ(Run("job logs --tail 100 " + id).out, "c\nd\n\ne");
  EXPECT_EQ(Run("job logs --tail 1 --attempt 1 " + id).out, "b\n");
  const Result none = Run("job logs --tail 0 " + id);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "");
  EXPECT_EQ(Run("job logs -f --tail 1 " + id).out, "e");
  const Result both = Run("job logs --tail 1 --tail-bytes 1 " + id);
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_EQ(both.err, "error: give either --tail or --tail-bytes, not both\n");
}

TEST_F(AmpctlLogs, Tail_OfManyLines_ReadsAsMuchAsItNeeds) {
  std::string log;
  for (int i = 0; i < 30'000; ++i) {
    absl::StrAppend(&log, "line ", i, "\n");
  }
  const std::string id = AddJob(v1::Job::SUCCEEDED, 1, {log});
  const std::string last = log.substr(log.find("line 10000\n"));
  ASSERT_GT(last.size(), 64u << 10) << "more than the first request brings";
  EXPECT_EQ(Run("job logs --tail 20000 " + id).out, last);
  EXPECT_EQ(fake_.jobs.script()->log_requests.size(), 3u);
  EXPECT_EQ(Run("job logs --tail 2 " + id).out, "line 29998\nline 29999\n");
  EXPECT_EQ(fake_.jobs.script()->log_requests.size(), 5u);
  EXPECT_EQ(Run("job logs --tail 50000 " + id).out, log);
}

TEST_F(AmpctlLogs, Follow_PrintsTheTailOfTheFirstAttemptAndAllOfTheNext) {
  const std::string id = AddJob(v1::Job::RUNNING, 1, {"a\nb\n", "c\nd\n"});
  Then(v1::Job::SUCCEEDED, 2);
  EXPECT_EQ(Run("job logs -f --tail 1 " + id).out, "b\nc\nd\n");
}

TEST_F(AmpctlLogs, Since_PrintsFromTheFirstLineThatIsRecentEnough) {
  const std::string id = AddJob(
      v1::Job::SUCCEEDED, 1, {"a warning\n2026-01-31T22:00:00Z one\nof a library\n2026-01-31T22:00:01Z two\nmore\n"});
  EXPECT_EQ(Run("job logs --since 2026-01-31T22:00:01Z " + id).out, "2026-01-31T22:00:01Z two\nmore\n");
  EXPECT_EQ(Run("job logs --since '2026-01-31 22:00:00' " + id, "TZ=UTC AMPD_ADDRESS=" + fake_.address()).out,
            "2026-01-31T22:00:00Z one\nof a library\n2026-01-31T22:00:01Z two\nmore\n");
  EXPECT_EQ(Run("job logs --tail 3 --since 2026-01-31 " + id).out, "2026-01-31T22:00:01Z two\nmore\n");
  const Result nothing = Run("job logs --since 1s " + id);
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(nothing.out, "");
  EXPECT_EQ(nothing.err, "the log has no lines from the time given by --since '1s' or later\n");
  const Result wrong = Run("job logs --since soon " + id);
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("error: --since: 'soon' is not a duration such as 10m or a time such as "
                                   "2026-01-31T23:59:59Z\n"));
}

}  // namespace
}  // namespace ampd::client
