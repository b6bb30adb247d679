// Tests --retry-for, which sets how long a command that follows a job tries to reach a server that does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(Ampctl, RetryFor_ReachesAServerThatAnswersLater) {
  v1::Job job = fake_.jobs.Add("n", v1::Job::SUCCEEDED);
  job.set_num_attempts(1);
  fake_.jobs.Put(job);
  for (const char* command : {"job wait", "job watch", "job logs -f", "job logs"}) {
    SCOPED_TRACE(command);
    fake_.jobs.script()->unavailable_gets = 2;
    fake_.jobs.script()->unavailable_streams = 2;
    const Result result = Run(absl::StrCat(command, " --retry-for 1m ", job.id()));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, StartsWith("the server does not answer; retrying for 1m\n"));
    EXPECT_EQ(fake_.jobs.script()->unavailable_gets, 0) << "the fault never happened";
    EXPECT_EQ(fake_.jobs.script()->unavailable_streams, 0) << "the fault never happened";
  }
}

TEST_F(Ampctl, WithoutRetryFor_AServerThatDoesNotAnswerAtTheStartIsAnError) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  for (const char* command : {"job wait ", "job watch ", "job logs -f ", "job logs "}) {
    fake_.jobs.script()->unavailable_streams = 1;
    const Result result = Run(command + id);
    EXPECT_EQ(result.exit_code, 5) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("retrying"))) << command;
    EXPECT_EQ(fake_.jobs.script()->unavailable_streams, 0) << command;
  }
}

TEST_F(Ampctl, RetryFor_EndsWithTheErrorOfAnUnreachableServer) {
  for (const char* command : {"job wait", "job watch", "job logs -f"}) {
    const Result result = Run(absl::StrCat(command, " --retry-for 300ms name"), "AMPD_ADDRESS=127.0.0.1:1");
    EXPECT_EQ(result.exit_code, 5) << command;
    EXPECT_THAT(result.err, HasSubstr("the server does not answer; retrying for 300ms\nerror: cannot reach the server "
                                      "at 127.0.0.1:1: "))
        << command;
  }
}

TEST_F(Ampctl, RetryFor_OfAJobThatDoesNotExist_FailsAtOnce) {
  EXPECT_EQ(Run("job wait --retry-for 1h j-aaaaaaaaaaaaaaaz").exit_code, 3);
  EXPECT_EQ(Run("job wait --retry-for 1h nowhere").exit_code, 3);
}

TEST_F(Ampctl, RetryForZero_GivesUpAsSoonAsTheConnectionIsLost) {
  const std::string id = fake_.jobs.Add("n", v1::Job::SUCCEEDED).id();
  fake_.jobs.script()->cut_watch_after = 3;
  EXPECT_EQ(Run("job wait --retry-for 0s " + id).exit_code, 5);
  EXPECT_EQ(fake_.jobs.script()->num_cuts, 1);
  EXPECT_EQ(Run("job wait " + id).exit_code, 0) << "by default it reconnects";
}

}  // namespace
}  // namespace ampd::client
