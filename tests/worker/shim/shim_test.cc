#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/shim/attempt_log.h"
#include "worker/shim/lease_timer.h"

namespace ampd::shim {
namespace {

using Verdict = LeaseTimer::Verdict;

TEST(LeaseTimer, WithoutALease_RunsForEver) {
  LeaseTimer timer;
  EXPECT_EQ(timer.At(absl::Hours(1000)), Verdict::kRun);
  EXPECT_EQ(timer.NextChange(absl::Hours(1)), absl::InfiniteDuration());
}

TEST(LeaseTimer, DeadlineSuspends_ARenewalContinues_TheLimitKills) {
  LeaseTimer timer;
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  EXPECT_EQ(timer.At(absl::Seconds(9)), Verdict::kRun);
  EXPECT_EQ(timer.NextChange(absl::Seconds(9)), absl::Seconds(10));
  EXPECT_EQ(timer.At(absl::Seconds(10)), Verdict::kSuspend);
  EXPECT_EQ(timer.NextChange(absl::Seconds(10)), absl::Seconds(70));
  timer.Renew(absl::Seconds(30), absl::ZeroDuration());
  EXPECT_EQ(timer.At(absl::Seconds(20)), Verdict::kRun);
  EXPECT_EQ(timer.At(absl::Seconds(90)), Verdict::kKill);
}

TEST(LeaseTimer, StopAhead_SuspendsBeforeTheDeadlineAndKeepsTheLimit) {
  LeaseTimer timer(absl::Milliseconds(25));
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  EXPECT_EQ(timer.deadline(), absl::Seconds(10));
  EXPECT_EQ(timer.NextChange(absl::Seconds(9)), absl::Seconds(10) - absl::Milliseconds(25));
  EXPECT_EQ(timer.At(absl::Seconds(10) - absl::Milliseconds(26)), Verdict::kRun);
  EXPECT_EQ(timer.At(absl::Seconds(10) - absl::Milliseconds(25)), Verdict::kSuspend);
  EXPECT_EQ(timer.NextChange(absl::Seconds(10)), absl::Seconds(70));
}

TEST(LeaseTimer, ALeaseGivenOnce_IsNotTakenBackByAnOlderMessage) {
  LeaseTimer timer;
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  timer.Renew(absl::Seconds(5), absl::Seconds(60));
  timer.Renew(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_EQ(timer.At(absl::Seconds(9)), Verdict::kRun);
  EXPECT_EQ(timer.At(absl::Seconds(10)), Verdict::kSuspend);
}

class AttemptLog : public testing::Test {
 protected:
  AttemptLog() {
    std::string name = testing::TempDir() + "/ampd-log-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~AttemptLog() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(AttemptLog, WhatWasWritten_IsReadFromAnyOffset) {
  AttemptLogWriter writer(folder_, {.segment_bytes = 4, .num_segments = 16});
  writer.Append("hello ");
  writer.Append("world");
  std::string all;
  while (true) {
    const auto part = ReadAttemptLog(folder_, static_cast<int64_t>(all.size()), 3);
    ASSERT_TRUE(part.ok());
    EXPECT_EQ(part->dropped_bytes, 0);
    if (part->content.empty()) {
      break;
    }
    all += part->content;
  }
  EXPECT_EQ(all, "hello world");
  EXPECT_EQ(ReadAttemptLog(folder_, 6, 100)->content, "wo");
}

TEST_F(AttemptLog, BeyondItsLimit_KeepsTheFirstAndTheNewestAndCountsTheGap) {
  AttemptLogWriter writer(folder_, {.segment_bytes = 10, .num_segments = 3});
  for (int i = 0; i < 10; ++i) {
    writer.Append(absl::StrCat("segment ", i, "\n"));
  }
  EXPECT_EQ(writer.end(), 100);
  EXPECT_EQ(ReadAttemptLog(folder_, 0, 100)->content, "segment 0\n");
  const auto part = ReadAttemptLog(folder_, 10, 100);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->offset_bytes, 80);
  EXPECT_EQ(part->dropped_bytes, 70);
  EXPECT_EQ(part->content, "segment 8\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 90, 100)->content, "segment 9\n");
}

}  // namespace
}  // namespace ampd::shim
