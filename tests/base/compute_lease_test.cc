#include "base/ipc/compute_lease.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/simulated_clock.h"
#include "gtest/gtest.h"

namespace ampd {
namespace {

ComputeLease Created() {
  auto lease = ComputeLease::Create();
  EXPECT_TRUE(lease.ok()) << lease.status();
  return *std::move(lease);
}

// Runs `child` in a forked process that inherits `lease`, as a program started by exec would. Returns the result of
// `child`, or 255 if the lease can't be inherited.
int InChild(const ComputeLease& lease, const std::function<int(const ComputeLease&)>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    lease.PassOn();
    const auto inherited = ComputeLease::Inherit();
    _exit(inherited.ok() && std::getenv("AMPD_LEASE_FD") == nullptr ? child(*inherited) : 255);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ComputeLease, NobodyKeepsIt_IsAlwaysValid) {
  SimulatedClock clock;
  const ComputeLease lease = ComputeLease::Inherit().value();
  EXPECT_EQ(lease.deadline(), std::nullopt);
  EXPECT_EQ(lease.AwaitValid(clock), clock.SinceBoot());
}

TEST(ComputeLease, OnlyGrows) {
  ComputeLease lease = Created();
  EXPECT_EQ(lease.deadline(), absl::ZeroDuration());
  lease.Extend(absl::Seconds(10));
  lease.Extend(absl::Seconds(4));
  EXPECT_EQ(lease.deadline(), absl::Seconds(10));
}

TEST(ComputeLease, WhoInheritsIt_ReadsItAndCannotWriteIt) {
  ComputeLease lease = Created();
  lease.Extend(absl::Seconds(10));
  EXPECT_EQ(InChild(lease, [](const ComputeLease& inherited) { return inherited.deadline() == absl::Seconds(10); }), 1);
  EXPECT_DEATH(
      {
        lease.PassOn();
        ComputeLease::Inherit()->Extend(absl::Seconds(20));
      },
      "");
}

TEST(ComputeLease, AwaitValid_ReturnsAtOnceBeforeTheDeadline) {
  SimulatedClock clock;
  ComputeLease lease = Created();
  lease.Extend(clock.SinceBoot() + absl::Nanoseconds(1));
  EXPECT_EQ(lease.AwaitValid(clock), clock.SinceBoot());
}

TEST(ComputeLease, AwaitValid_GoesOnInAnotherProcessWhenItIsExtended) {
  ComputeLease lease = Created();
  std::promise<int> ended;
  std::thread waiting([&] {
    ended.set_value(InChild(lease, [](const ComputeLease& inherited) {
      const absl::Duration valid_at = inherited.AwaitValid(SystemClock());
      return valid_at < *inherited.deadline() ? 1 : 0;
    }));
  });
  auto result = ended.get_future();
  lease.Extend(SystemClock().SinceBoot() - absl::Seconds(1));  // This deadline has passed, so the wait continues.
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  lease.Extend(SystemClock().SinceBoot() + absl::Hours(1));
  EXPECT_EQ(result.get(), 1);
  waiting.join();
}

TEST(ComputeLease, AnEnvironmentThatNamesNoLease_IsRefused) {
  for (const char* value : {"", "lease", "-1", "9999", "0"}) {
    setenv("AMPD_LEASE_FD", value, /*replace=*/1);
    EXPECT_EQ(ComputeLease::Inherit().status().code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_EQ(std::getenv("AMPD_LEASE_FD"), nullptr);
  }
}

}  // namespace
}  // namespace ampd
