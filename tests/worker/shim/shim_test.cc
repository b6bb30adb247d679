#include "worker/shim/shim.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "base/clock.h"
#include "base/io/file.h"
#include "gtest/gtest.h"
#include "worker/shim/attempt_log.h"
#include "worker/shim/lease_timer.h"

namespace ampd::shim {
namespace {

using Verdict = LeaseTimer::Verdict;

TEST(LeaseTimer, WithoutALease_RunsForEver) {
  LeaseTimer timer;
  EXPECT_EQ(timer.VerdictAt(absl::Hours(1000)), Verdict::kRun);
  EXPECT_EQ(timer.NextChange(absl::Hours(1)), absl::InfiniteDuration());
}

TEST(LeaseTimer, WithoutALeaseOrAnAgent_IsKilledAfterTheLimit) {
  LeaseTimer timer(absl::Milliseconds(25), absl::Minutes(10));
  timer.RecordAgent(absl::Hours(1));
  EXPECT_EQ(timer.NextChange(absl::Hours(1)), absl::Hours(1) + absl::Minutes(10));
  EXPECT_EQ(timer.VerdictAt(absl::Hours(1) + absl::Minutes(9)), Verdict::kRun);
  timer.RecordAgent(absl::Hours(1) + absl::Minutes(9));
  EXPECT_EQ(timer.VerdictAt(absl::Hours(1) + absl::Minutes(18)), Verdict::kRun);
  EXPECT_EQ(timer.VerdictAt(absl::Hours(1) + absl::Minutes(19)), Verdict::kKill);
  timer.Renew(absl::Hours(2), absl::Minutes(5));
  EXPECT_EQ(timer.VerdictAt(absl::Hours(1) + absl::Minutes(30)), Verdict::kRun);
}

TEST(LeaseTimer, DeadlineSuspends_ARenewalContinues_TheLimitKills) {
  LeaseTimer timer;
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(9)), Verdict::kRun);
  EXPECT_EQ(timer.NextChange(absl::Seconds(9)), absl::Seconds(10));
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(10)), Verdict::kSuspend);
  EXPECT_EQ(timer.NextChange(absl::Seconds(10)), absl::Seconds(70));
  timer.Renew(absl::Seconds(30), absl::ZeroDuration());
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(20)), Verdict::kRun);
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(90)), Verdict::kKill);
}

TEST(LeaseTimer, StopAhead_SuspendsBeforeTheDeadlineAndKeepsTheLimit) {
  LeaseTimer timer(absl::Milliseconds(25));
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  EXPECT_EQ(timer.deadline(), absl::Seconds(10));
  EXPECT_EQ(timer.NextChange(absl::Seconds(9)), absl::Seconds(10) - absl::Milliseconds(25));
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(10) - absl::Milliseconds(26)), Verdict::kRun);
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(10) - absl::Milliseconds(25)), Verdict::kSuspend);
  EXPECT_EQ(timer.NextChange(absl::Seconds(10)), absl::Seconds(70));
}

TEST(LeaseTimer, ALeaseGivenOnce_IsNotTakenBackByAnOlderMessage) {
  LeaseTimer timer;
  timer.Renew(absl::Seconds(10), absl::Seconds(60));
  timer.Renew(absl::Seconds(5), absl::Seconds(60));
  timer.Renew(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(9)), Verdict::kRun);
  EXPECT_EQ(timer.VerdictAt(absl::Seconds(10)), Verdict::kSuspend);
}

class SpawnFolderTest : public testing::Test {
 protected:
  SpawnFolderTest() {
    std::string name = testing::TempDir() + "/ampd-shim-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SpawnFolderTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

using AttemptLog = SpawnFolderTest;

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
  EXPECT_EQ(ReadAttemptLog(folder_, 0, 100)->content, "segment 0\n");
  const auto part = ReadAttemptLog(folder_, 10, 100);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->offset_bytes, 80);
  EXPECT_EQ(part->dropped_bytes, 70);
  EXPECT_EQ(part->content, "segment 8\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 90, 100)->content, "segment 9\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 100, 100)->content, "");
}

// While an object of this class exists, this process can write nothing to files, as on a full disk.
class NoRoomInFiles {
 public:
  NoRoomInFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit none = {0, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  ~NoRoomInFiles() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    signal(SIGXFSZ, signal_before_);
  }

 private:
  // By default this signal ends a process that writes more than its limit.
  const sighandler_t signal_before_ = signal(SIGXFSZ, SIG_IGN);
  rlimit before_ = {};
};

TEST_F(AttemptLog, OnAFullDisk_KeepsWhatWasWrittenBefore) {
  AttemptLogWriter writer(folder_, {.segment_bytes = 10, .num_segments = 3});
  for (int i = 0; i < 3; ++i) {
    writer.Append(absl::StrCat("segment ", i, "\n"));
  }
  {
    const NoRoomInFiles no_room;
    for (int i = 0; i < 10; ++i) {
      writer.Append("lost text\n");
    }
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReadAttemptLog(folder_, 10 * i, 100)->content, absl::StrCat("segment ", i, "\n"));
  }
  EXPECT_EQ(ReadAttemptLog(folder_, 30, 100)->content, "");
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 3) << "no segment is empty";

  writer.Append("after all\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 0, 100)->content, "segment 0\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 10, 100)->content, "segment 2\n") << "the oldest but the first was dropped";
  EXPECT_EQ(ReadAttemptLog(folder_, 30, 100)->content, "after all\n");
  EXPECT_EQ(ReadAttemptLog(folder_, 30, 100)->dropped_bytes, 100);
}

// The trainer makes a folder where the exit file should be, so the file cannot be written, as on a read-only disk. If
// the shim waited until it can, the attempt would occupy its device for as long.
TEST_F(SpawnFolderTest, ShimThatCannotWriteTheExitFile_EndsAfterSomeTries) {
  const pid_t shim = fork();
  ASSERT_GE(shim, 0);
  if (shim == 0) {
    Shim::Options options;
    options.folder = folder_;
    options.trainer = {"/bin/mkdir", "-p", folder_ + "/exit/full"};
    options.max_exit_tries = 2;
    options.clock = &SystemClock();
    _exit(Shim(std::move(options)).Run().ok() ? 0 : 1);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(shim, &wait_status, 0), shim);
  EXPECT_EQ(wait_status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/exit/full"));
}

TEST_F(SpawnFolderTest, WithoutALeaseOrAnAgent_TheTrainerIsKilledAndItsEndIsWritten) {
  const pid_t shim = fork();
  ASSERT_GE(shim, 0);
  if (shim == 0) {
    Shim::Options options;
    options.folder = folder_;
    options.trainer = {"/bin/sleep", "1000"};
    options.unattended_limit = absl::Milliseconds(100);
    options.clock = &SystemClock();
    _exit(Shim(std::move(options)).Run().ok() ? 0 : 1);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(shim, &wait_status, 0), shim);
  EXPECT_EQ(wait_status, 0);
  const absl::StatusOr<std::string> bytes = ReadFile(folder_ + "/exit", 4096);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  internal::ShimStatus end;
  ASSERT_TRUE(end.ParseFromString(*bytes));
  EXPECT_TRUE(end.exited());
  EXPECT_TRUE(end.killed());
  EXPECT_EQ(end.signal(), SIGKILL);
}

}  // namespace
}  // namespace ampd::shim
