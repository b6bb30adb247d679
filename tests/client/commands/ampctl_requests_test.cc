// Tests the requests that the commands for creating and changing jobs send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;

TEST_F(Ampctl, SubmitWithARequestId_CreatesOneJobHoweverOftenItIsRepeated) {
  Write("job.yaml", kGoodJob);
  const Result first = Run("job submit -q -f job.yaml --request-id nightly-7");
  const Result second = Run("job submit -q -f job.yaml --request-id nightly-7");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(fake_.jobs.size(), 1u);
  EXPECT_NE(Run("job submit -q -f job.yaml --request-id nightly-8").out, first.out);
  EXPECT_NE(Run("job submit -q -f job.yaml").out, first.out);
  EXPECT_EQ(fake_.jobs.size(), 3u);
  EXPECT_EQ(fake_.jobs.script()->creates[0].request_id(), "nightly-7");
  EXPECT_EQ(fake_.jobs.script()->creates[3].request_id().size(), 36u) << "a UUID";
}

TEST_F(Ampctl, RetryAndCloneSendTheRequestId) {
  const std::string id = fake_.jobs.Add("n", v1::Job::FAILED).id();
  EXPECT_EQ(Run("job retry -q --request-id a " + id).exit_code, 0);
  EXPECT_EQ(Run("job clone -q --request-id b " + id).exit_code, 0);
  const std::vector<v1::CloneJobRequest> clones = fake_.jobs.script()->clones;
  ASSERT_EQ(clones.size(), 2u);
  EXPECT_EQ(clones[0].request_id(), "a");
  EXPECT_EQ(clones[1].request_id(), "b");
}

TEST_F(Ampctl, ARequestIdThatTheServerWouldRefuse_IsAUsageError) {
  Write("job.yaml", kGoodJob);
  EXPECT_THAT(Run("job submit -f job.yaml --request-id ''").err,
              HasSubstr("error: --request-id: the value must not be empty\n"));
  const Result too_long = Run("job submit -f job.yaml --request-id " + std::string(129, 'x'));
  EXPECT_EQ(too_long.exit_code, 2);
  EXPECT_THAT(too_long.err, HasSubstr("error: --request-id: the value has 129 bytes; the limit is 128\n"));
  EXPECT_EQ(Run("job submit -q -f job.yaml --request-id " + std::string(128, 'x')).exit_code, 0);
}

TEST_F(Ampctl, UpdateChangesThePriorityOfEachJob) {
  const std::string first = fake_.jobs.Add("a", v1::Job::QUEUED).id();
  const std::string second = fake_.jobs.Add("b", v1::Job::RUNNING).id();
  const Result result = Run(absl::StrCat("job update ", first, " b --priority 10"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, absl::StrCat(first, "  priority 10\n", second, "  priority 10\n"));
  EXPECT_EQ(Run("job update -q --priority -3 " + first).out, first + "\n");
  const std::vector<v1::UpdateJobRequest> updates = fake_.jobs.script()->updates;
  ASSERT_EQ(updates.size(), 3u);
  EXPECT_EQ(updates[2].ShortDebugString(),
            absl::StrCat("id: \"", first, "\" update_mask { paths: \"priority\" } priority: -3"));
}

TEST_F(Ampctl, UpdateWithNothingToChange_IsAUsageError) {
  const std::string id = fake_.jobs.Add("a", v1::Job::QUEUED).id();
  const Result nothing = Run("job update " + id);
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_EQ(nothing.err, "error: ampctl job update needs --priority N\n  try: ampctl job update --help\n");
  EXPECT_EQ(Run("job update --priority 1 j-nowhere").exit_code, 3);
  EXPECT_THAT(Run("job update --priority high " + id).err, HasSubstr("--priority: 'high' is not a whole number"));
}

}  // namespace
}  // namespace ampd::client
