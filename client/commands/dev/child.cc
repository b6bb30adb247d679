#include "client/commands/dev/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/io/file.h"

namespace ampd::client {
namespace {

// Executes the program `arguments[0]` in the new process. Runs between fork and exec, where a process whose parent has
// threads may only make async-signal-safe calls.
[[noreturn]] void ExecuteAsChild(char* const* arguments, char* const* environment, int log, pid_t parent) {
  constexpr int kCannotExecute = 127;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    _exit(kCannotExecute);
  }
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execve(arguments[0], arguments, environment);
  _exit(kCannotExecute);
}

// Returns this process's environment without the variables for the token and the TLS files, which are for another
// server. The returned strings still belong to this process's environment.
std::vector<char*> EnvironmentOfChild() {
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool is_of_another_server = absl::StartsWith(*entry, "AMPD_TOKEN=") || absl::StartsWith(*entry, "AMPD_CA=") ||
                                      absl::StartsWith(*entry, "AMPD_CERT=") || absl::StartsWith(*entry, "AMPD_KEY=");
    if (!is_of_another_server) {
      environment.push_back(*entry);
    }
  }
  environment.push_back(nullptr);
  return environment;
}

}  // namespace

absl::StatusOr<Child> Child::Start(const std::vector<std::string>& command, const std::string& log_path) {
  if (access(command[0].c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot find the program ", command[0], "; put it into the folder that ampctl is in"));
  }
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(log_path, " cannot be opened: ", std::strerror(errno)));
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const std::vector<char*> environment = EnvironmentOfChild();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    ExecuteAsChild(arguments.data(), environment.data(), log.get(), parent);
  }
  return pid < 0 ? absl::StatusOr<Child>(ErrnoError(errno, "a process cannot be started")) : Child(pid);
}

void Child::Signal(int signal) {
  if (!PollExit().has_value()) {
    kill(pid_, signal);
  }
}

const std::optional<std::string>& Child::PollExit() {
  int status = 0;
  if (exit_.has_value()) {
    return exit_;
  }
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) {
    exit_ = WIFEXITED(status) ? absl::StrCat("exit status ", WEXITSTATUS(status))
                              : absl::StrCat("signal ", WTERMSIG(status));
  } else if (reaped < 0 && errno == ECHILD) {
    exit_ = "exit status unknown";
  }
  return exit_;
}

}  // namespace ampd::client
