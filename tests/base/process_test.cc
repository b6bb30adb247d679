#include "base/ipc/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

constexpr char kToken[] = "AMPD_TEST_TOKEN";

// Starts a process that idles until it is killed. Its environment holds only kToken=`token`.
pid_t StartIdler(const std::string& token) {
  int ready[2];
  EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string variable = absl::StrCat(kToken, "=", token);
    execle("/bin/sleep", "sleep", "1000", nullptr, std::array<const char*, 2>{variable.c_str(), nullptr}.data());
    _exit(127);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 0);  // The read ends when the child's exec closes the other end.
  close(ready[0]);
  return pid;
}

void Reap(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

// Runs `check` as the first process of a pid namespace that has its own /proc. Returns the result of `check`, or
// nullopt if namespaces are not allowed.
std::optional<std::string> InPidNamespace(const std::function<std::string()>& check) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) {
      _exit(1);
    }
    const pid_t first = fork();
    if (first == 0) {
      if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("proc", "/proc", "proc", 0, nullptr) != 0) {
        _exit(1);
      }
      (void)WriteAll(ends[1], check());
      _exit(0);
    }
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  close(ends[1]);
  std::string said;
  char buffer[256];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, count);
  }
  close(ends[0]);
  int status = 0;
  waitpid(outer, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? std::nullopt : std::optional(said);
}

// Starts another idling process with the pid of `old`, at least one clock tick later than `old`. Returns its pid.
pid_t TakeOverPid(const ProcessIdentity& old, const std::string& token) {
  for (int i = 0; i < 10'000; ++i) {
    const UniqueFd last(open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC));
    if (!WriteAll(last.get(), absl::StrCat(old.pid - 1)).ok()) {
      return -1;
    }
    const pid_t pid = StartIdler(token);
    const absl::StatusOr<ProcessIdentity> identity = IdentityOf(pid);
    if (pid == old.pid && identity.ok() && identity->start_ticks > old.start_ticks) {
      return pid;
    }
    Reap(pid);
  }
  return -1;
}

TEST(ProcessHandle, OpensTheProcessThatWasRecordedAndSignalsIt) {
  const pid_t pid = StartIdler("a");
  const ProcessIdentity identity = *IdentityOf(pid);
  auto handle = ProcessHandle::Open(identity);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_TRUE(handle->alive());
  EXPECT_TRUE(handle->Signal(SIGTERM).ok());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_FALSE(handle->alive());
  EXPECT_EQ(handle->Signal(SIGTERM).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ProcessHandle::Open(identity).status().code(), absl::StatusCode::kNotFound);
}

TEST(ProcessHandle, RecordThatDiffersInAnyPart_IsNotThatProcess) {
  const pid_t pid = StartIdler("a");
  const ProcessIdentity identity = *IdentityOf(pid);
  ProcessIdentity other_start = identity, other_boot = identity, no_pid = identity, nobody = identity;
  other_start.start_ticks -= 1;
  other_boot.boot_id = "00000000-0000-0000-0000-000000000000";
  no_pid.pid = 0;
  nobody.pid = -1;
  for (const ProcessIdentity& forged : {other_start, other_boot, no_pid, nobody}) {
    EXPECT_EQ(ProcessHandle::Open(forged).status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_TRUE(ProcessHandle::Open(identity)->alive()) << "it was signalled";
  Reap(pid);
}

TEST(ProcessHandle, Zombie_IsGone) {
  const pid_t pid = StartIdler("a");
  const ProcessIdentity identity = *IdentityOf(pid);
  kill(pid, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ReadProcess(pid)->state, 'Z');
  EXPECT_EQ(ProcessHandle::Open(identity).status().code(), absl::StatusCode::kNotFound);
  Reap(pid);
}

// Linux normally reuses a pid only after 32,768 further processes. This test makes it reuse one at once.
TEST(ProcessHandle, PidTakenByAnotherProcess_IsNeitherFoundNorSignalled) {
  const std::optional<std::string> said = InPidNamespace([]() -> std::string {
    const pid_t old_pid = StartIdler("old");
    const ProcessIdentity recorded = *IdentityOf(old_pid);
    absl::StatusOr<ProcessHandle> handle = ProcessHandle::Open(recorded);
    Reap(old_pid);
    const pid_t pid = TakeOverPid(recorded, "young");
    if (pid < 0) {
      return "the pid could not be taken over";
    }
    if (!handle.ok() || handle->Signal(SIGKILL).code() != absl::StatusCode::kNotFound) {
      return "the old handle reached the new process";
    }
    if (ProcessHandle::Open(recorded).status().code() != absl::StatusCode::kNotFound) {
      return "the old record opened the new process";
    }
    if (StartedWith(pid, kToken, "old") || !ProcessesStartedWith(kToken, "old").empty()) {
      return "the old token was found on the new process";
    }
    if (!StartedWith(pid, kToken, "young") || !ProcessHandle::Open(*IdentityOf(pid)).ok()) {
      return "the new process was not found by its own record";
    }
    return waitpid(pid, nullptr, WNOHANG) == 0 ? "ok" : "the new process was killed";
  });
  if (!said.has_value()) {
    GTEST_SKIP() << "SKIPPED: no pid namespace here; needs root or user namespaces";
  }
  EXPECT_EQ(*said, "ok");
}

}  // namespace
}  // namespace ampd
