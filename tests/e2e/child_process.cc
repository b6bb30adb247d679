#include "tests/e2e/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "base/io/file.h"

extern char** environ;

namespace ampd::e2e {

ChildProcess::ChildProcess(std::vector<std::string> arguments, const std::string& log_path) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << "can't start " << arguments[0];
}

ChildProcess::~ChildProcess() { KillAndWait(); }

bool ChildProcess::Running() { return pid_ > 0 && Wait(absl::ZeroDuration()) == -1; }

void ChildProcess::Signal(int signal) {
  if (pid_ > 0) {
    kill(pid_, signal);
  }
}

int ChildProcess::Wait(absl::Duration timeout) {
  if (pid_ <= 0) {
    return wait_status_;
  }
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  if (poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    return -1;
  }
  waitpid(pid_, &wait_status_, 0);
  pid_ = -1;
  return wait_status_;
}

void ChildProcess::KillAndWait() {
  Signal(SIGKILL);
  if (pid_ > 0) {
    Wait(absl::Minutes(1));
  }
}

std::string AwaitFile(const std::string& path, absl::Duration timeout) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  inotify_add_watch(watch.get(), folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO);
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const auto content = ReadFile(path, 1 << 20);
    if (content.ok() && !content->empty() && content->back() == '\n') {
      return *content;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      ADD_FAILURE() << path << " did not appear in " << absl::FormatDuration(timeout);
      return "";
    }
    pollfd changed{watch.get(), POLLIN, 0};
    poll(&changed, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    char events[4096];
    while (read(watch.get(), events, sizeof(events)) > 0) {
    }
  }
}

std::string MakeFolder(const std::string& prefix) {
  std::string pattern = testing::TempDir() + "/" + prefix + "_XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

}  // namespace ampd::e2e
