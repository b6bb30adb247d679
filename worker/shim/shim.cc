#include "worker/shim/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/ipc/unix_socket.h"
#include "base/status_macros.h"
#include "worker/shim/descendants.h"

namespace ampd::shim {
namespace {

constexpr int kProtocol = 1;
constexpr size_t kMaxClients = 8;
constexpr int kExecFailed = 127;
// Retry interval at the end of the shim, while the disk is too full for the exit file or a process has not exited yet.
constexpr absl::Duration kRetry = absl::Milliseconds(200);
// Size of the file that reserves disk space for the exit file: one block of common file systems, which is larger than
// the exit file.
constexpr size_t kReserveBytes = 4096;
// How long before the lease's deadline the shim stops the trainer. Under load the shim's timer fires some milliseconds
// late. If it is more than kStopAhead late, the trainer stops by itself at the deadline, which it reads from the shared
// lease. The shortest lease, 100 ms, is renewed every 20 ms.
constexpr absl::Duration kStopAhead = absl::Milliseconds(25);

// Turns the calling child process into the trainer. Runs in the child, between fork and exec.
[[noreturn]] void BecomeTrainer(const std::vector<std::string>& command, const ComputeLease& lease, int output) {
  setsid();
  lease.PassOn();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGHUP, SIG_IGN);  // the shim ignores SIGHUP too: closing a terminal must not end a job
  // Raise the kernel's OOM score, so that the kernel kills the trainer before the agent and the shim when memory runs
  // out. Ignore an error, because the score is only a hint.
  WriteAll(UniqueFd(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)).get(), "500").IgnoreError();
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  std::fprintf(stderr, "ampd-shim: can't start %s: %s\n", arguments[0], std::strerror(errno));
  std::fflush(stderr);
  _exit(kExecFailed);
}

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Shim::Shim(Options options)
    : options_(std::move(options)),
      log_(options_.folder, options_.log),
      lease_(kStopAhead, options_.unattended_limit) {}

absl::Status Shim::Run() {
  AMPD_RETURN_IF_ERROR(Start());
  while (!finished_) {
    RunOnce();
  }
  return absl::OkStatus();
}

absl::Status Shim::Start() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return ErrnoError(errno, "become a subreaper");
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t taken;
  sigemptyset(&taken);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT}) {
    sigaddset(&taken, signal);
  }
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  signals_ = UniqueFd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  timer_ = UniqueFd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!signals_.ok() || !timer_.ok()) {
    return ErrnoError(errno, "make a signal or timer descriptor");
  }
  AMPD_ASSIGN_OR_RETURN(listener_, ListenUnix(absl::StrCat(options_.folder, "/shim.sock")));
  AMPD_ASSIGN_OR_RETURN(shared_lease_, ComputeLease::Create());
  lease_.RecordAgent(options_.clock->SinceBoot());
  // Reserve disk space for the exit file now. If the disk fills up before the trainer exits, the shim could not write
  // the file and could not end, and the device would stay occupied.
  const UniqueFd reserve(open(Reserve().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  WriteAll(reserve.get(), std::string(kReserveBytes, '.')).IgnoreError();  // on an error, the exit file may still fit
  return StartTrainer();
}

absl::Status Shim::StartTrainer() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return ErrnoError(errno, "make a pipe");
  }
  output_ = UniqueFd(ends[0]);
  UniqueFd write_end(ends[1]);
  SetNonBlocking(output_.get());
  trainer_ = fork();
  if (trainer_ < 0) {
    return ErrnoError(errno, "fork");
  }
  if (trainer_ == 0) {
    BecomeTrainer(options_.trainer, shared_lease_, write_end.get());
  }
  oom_kills_.Sample(trainer_, options_.clock->SinceBoot());
  return absl::OkStatus();
}

// Waits for at least one event, and handles all events that are pending.
void Shim::RunOnce() {
  std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  if (output_.ok()) {
    waits.push_back({output_.get(), POLLIN, 0});
  }
  for (const auto& [fd, client] : clients_) {
    waits.push_back({fd, POLLIN, 0});
  }
  ArmTimer();
  if (poll(waits.data(), waits.size(), -1) < 0) {
    return;  // interrupted
  }
  ReadOutput();
  OnSignals();
  if (!end_.exited()) {
    oom_kills_.Sample(trainer_, options_.clock->SinceBoot());
  }
  if (waits[2].revents != 0) {
    AcceptClient();
  }
  for (const pollfd& wait : waits) {
    auto client = clients_.find(wait.fd);
    if (wait.revents != 0 && client != clients_.end() && !ReadClient(client->second)) {
      clients_.erase(client);
    }
  }
  uint64_t expirations = 0;
  (void)!read(timer_.get(), &expirations, sizeof(expirations));
  EnforceLease();
  finished_ = end_.exited() && Finish();
}

void Shim::ArmTimer() {
  const absl::Duration now = options_.clock->SinceBoot();
  const absl::Duration next = end_.exited() ? now + kRetry : lease_.NextChange(now);
  itimerspec when = {};
  if (next != absl::InfiniteDuration()) {
    when.it_value = absl::ToTimespec(std::max(next, absl::Nanoseconds(1)));
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Shim::OnSignals() {
  signalfd_siginfo signal = {};
  while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    if (signal.ssi_signo != SIGCHLD && !end_.exited()) {
      kill(trainer_, SIGTERM);  // the pid can't be reused: the trainer is our child and not reaped yet
    }
  }
  int wait_status = 0;
  rusage usage = {};
  for (pid_t pid = 0; (pid = wait4(-1, &wait_status, WNOHANG, &usage)) > 0;) {
    if (pid == trainer_) {
      OnTrainerEnd(wait_status, usage.ru_maxrss);
    }
  }
}

void Shim::OnTrainerEnd(int wait_status, int64_t max_rss_kib) {
  end_.set_exited(true);
  if (WIFSIGNALED(wait_status)) {
    end_.set_signal(WTERMSIG(wait_status));
  } else {
    end_.set_exit_code(WEXITSTATUS(wait_status));
  }
  end_.set_max_rss_bytes(max_rss_kib * 1024);
  end_.set_killed(killed_);
  if (killed_ || end_.signal() != SIGKILL) {
    return;
  }
  const OomKills::Verdict verdict = oom_kills_.VerdictAt(options_.clock->SinceBoot());
  end_.set_out_of_memory(verdict != OomKills::Verdict::kNone);
  if (verdict == OomKills::Verdict::kOfTheMachine) {
    WriteFileAtomically(absl::StrCat(options_.folder, "/", kOomGuessFile), "").IgnoreError();
  }
}

void Shim::AcceptClient() {
  absl::StatusOr<UniqueFd> socket = AcceptUnix(listener_.get());
  if (!socket.ok() || clients_.size() >= kMaxClients) {
    return;
  }
  SetNonBlocking(socket->get());
  const int fd = socket->get();
  clients_[fd].socket = *std::move(socket);
  if (!WriteFrame(fd, Status()).ok()) {
    clients_.erase(fd);
  }
}

// Reads the commands that the client has sent and carries them out. Returns false if the client is gone or has sent an
// invalid command.
bool Shim::ReadClient(Client& client) {
  char buffer[4096];
  const ssize_t size = read(client.socket.get(), buffer, sizeof(buffer));
  if (size <= 0) {
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  client.decoder.Append(std::string_view(buffer, size));
  while (true) {
    absl::StatusOr<std::optional<std::string>> payload = client.decoder.Next();
    if (!payload.ok()) {
      return false;
    }
    if (!payload->has_value()) {
      return true;
    }
    internal::ShimCommand command;
    if (!command.ParseFromString(**payload)) {
      return false;
    }
    OnCommand(command);
  }
}

void Shim::OnCommand(const internal::ShimCommand& command) {
  lease_.Renew(absl::Nanoseconds(command.lease_deadline_boottime_nanos()),
               absl::Nanoseconds(command.suspend_limit_nanos()));
  shared_lease_.Extend(lease_.deadline());
  EnforceLease();
  if (command.terminate() && !end_.exited()) {
    kill(trainer_, SIGTERM);
  }
  if (command.kill()) {
    Kill();
  }
  Broadcast();
}

void Shim::EnforceLease() {
  if (end_.exited() || killed_) {
    return;
  }
  const absl::Duration now = options_.clock->SinceBoot();
  if (!clients_.empty()) {
    lease_.RecordAgent(now);
  }
  const LeaseTimer::Verdict verdict = lease_.VerdictAt(now);
  if (verdict == LeaseTimer::Verdict::kKill) {
    Kill();
  } else if (verdict == LeaseTimer::Verdict::kSuspend && !suspended_) {
    StopDescendants();
    suspended_ = true;
    Broadcast();
  } else if (verdict == LeaseTimer::Verdict::kRun && suspended_) {
    SignalDescendants(SIGCONT);
    suspended_ = false;
    Broadcast();
  }
}

void Shim::Kill() {
  killed_ = true;
  KillDescendants();
}

void Shim::ReadOutput() {
  char buffer[64 << 10];
  // Limit the number of reads, so that a trainer that writes all the time cannot delay the lease.
  for (int i = 0; i < 16 && output_.ok(); ++i) {
    const ssize_t size = read(output_.get(), buffer, sizeof(buffer));
    if (size > 0) {
      log_.Append(std::string_view(buffer, size));
    } else if (size == 0) {
      output_.Reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Performs the steps of the shutdown that are possible now. Returns true if no step is left.
bool Shim::Finish() {
  if (!KillDescendants()) {
    return false;
  }
  ReadOutput();
  unlink(Reserve().c_str());
  const absl::Status written =
      WriteFileAtomically(absl::StrCat(options_.folder, "/exit"), Status().SerializeAsString());
  Broadcast();
  // A missing folder means that the agent has removed it and does not need the exit file. A connected agent does not
  // need the exit file either: it has the status from Broadcast. If no agent is connected, the status is lost. But if
  // the shim lived on, the attempt would occupy its device until somebody repairs the disk.
  const bool gives_up = !absl::IsResourceExhausted(written) && ++num_tries_ >= options_.max_exit_tries;
  return written.ok() || gives_up || access(options_.folder.c_str(), F_OK) != 0;
}

std::string Shim::Reserve() const { return absl::StrCat(options_.folder, "/reserve"); }

internal::ShimStatus Shim::Status() const {
  internal::ShimStatus status = end_;
  status.set_protocol(kProtocol);
  status.set_trainer_pid(trainer_);
  status.set_suspended(suspended_);
  status.set_lease_deadline_boottime_nanos(absl::ToInt64Nanoseconds(lease_.deadline()));
  return status;
}

void Shim::Broadcast() {
  const internal::ShimStatus status = Status();
  // Disconnect a client that does not read its messages. The client sees the end of the connection and connects again.
  std::erase_if(clients_, [&](auto& client) {
    if (!WriteFrame(client.first, status).ok()) {
      shutdown(client.first, SHUT_RDWR);
    }
    return false;
  });
}

}  // namespace ampd::shim
