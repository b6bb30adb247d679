#include "worker/agent/trainers/spawned_trainer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/ipc/process.h"
#include "base/status_macros.h"

extern char** environ;

namespace ampd::agent {
namespace {

// How often the process table is searched for a shim that can't be reached.
constexpr absl::Duration kSearchInterval = absl::Milliseconds(200);

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

bool HasVariable(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(),
                     [prefix = absl::StrCat(name, "=")](const auto& entry) { return absl::StartsWith(entry, prefix); });
}

// Makes the trainer's OpenMP threads spin only briefly while they wait, unless the operator's environment sets how
// they wait. OpenMP's threads wait for each other many times in a step. By default libgomp's threads spin for
// milliseconds without yielding the core. If other processes want the cores, a step then takes 3 to 6 times as long.
// If the cores are free, the short spin costs no time in fp32 and up to a tenth of a step in bf16, less than the
// variation between runs (all measured on two cores).
void AddOpenMpDefaults(std::vector<std::string>& environment) {
  if (!HasVariable(environment, "OMP_WAIT_POLICY") && !HasVariable(environment, "GOMP_SPINCOUNT")) {
    environment.emplace_back("GOMP_SPINCOUNT=1000");
  }
}

std::vector<std::string> EnvironmentWith(const std::string& token) {
  std::vector<std::string> environment;
  const std::string prefix = absl::StrCat(kTokenVariable, "=");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Leave out the worker's token for the server, because the trainer must not have access to the server.
    if (!absl::StartsWith(*entry, prefix) && !absl::StartsWith(*entry, "AMPD_TOKEN=")) {
      environment.emplace_back(*entry);
    }
  }
  environment.push_back(prefix + token);
  AddOpenMpDefaults(environment);
  return environment;
}

// Spawns the shim in its own session, so that no terminal and no signal to the agent's process group stops it.
absl::StatusOr<pid_t> SpawnDetached(std::vector<std::string> arguments, const std::string& token,
                                    const std::string& log_path) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<std::string> environment = EnvironmentWith(token);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments[0].c_str(), &actions, &attributes, Pointers(arguments).data(),
                                Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return ErrnoError(error, "start the shim");
  }
  return pid;
}

}  // namespace

SpawnedTrainer::SpawnedTrainer(SpawnFolder folder)
    : folder_(std::move(folder)), shim_(folder_.shim_socket()), trainer_(folder_.trainer_socket()) {}

absl::StatusOr<std::unique_ptr<SpawnedTrainer>> SpawnedTrainer::Start(const std::string& state_folder,
                                                                      internal::SpawnRecord record,
                                                                      const Command& command, ChildReaper& reaper) {
  AMPD_ASSIGN_OR_RETURN(*record.mutable_boot_id(), BootId());
  AMPD_ASSIGN_OR_RETURN(SpawnFolder folder, SpawnFolder::Create(state_folder, record));
  std::vector<std::string> arguments = {command.shim, "--folder", folder.path(), "--"};
  arguments.insert(arguments.end(), command.trainer.begin(), command.trainer.end());
  arguments.insert(arguments.end(), {"--spawn-folder", folder.path(), "--device", record.device()});
  absl::StatusOr<pid_t> pid = SpawnDetached(std::move(arguments), record.token(), folder.shim_log());
  if (!pid.ok()) {
    folder.Remove();
    return pid.status();
  }
  reaper.Add(*pid);
  auto trainer = std::unique_ptr<SpawnedTrainer>(new SpawnedTrainer(std::move(folder)));
  record.set_shim_pid(*pid);
  if (absl::StatusOr<ProcessIdentity> identity = IdentityOf(*pid); identity.ok()) {
    record.set_shim_start_ticks(identity->start_ticks);
  }
  // Write the record again, now with the shim's pid. If that fails, the shim is still found by its socket and its
  // token.
  trainer->folder_.Write(record).IgnoreError();
  return trainer;
}

std::unique_ptr<SpawnedTrainer> SpawnedTrainer::Adopt(SpawnFolder folder) {
  auto trainer = std::unique_ptr<SpawnedTrainer>(new SpawnedTrainer(std::move(folder)));
  trainer->may_have_been_ready_ = true;
  return trainer;
}

absl::Status SpawnedTrainer::Bind(const v1::AttemptKey& key, const std::string& traceparent) {
  internal::SpawnRecord record = folder_.record();
  *record.mutable_key() = key;
  record.set_traceparent(traceparent);
  return folder_.Write(record);
}

void SpawnedTrainer::SetLease(absl::Duration deadline, absl::Duration suspend_limit) {
  command_.set_lease_deadline_boottime_nanos(absl::ToInt64Nanoseconds(deadline));
  command_.set_suspend_limit_nanos(absl::ToInt64Nanoseconds(suspend_limit));
  SendToShim();
}

void SpawnedTrainer::Kill() {
  command_.set_kill(true);
  SendToShim();
}

void SpawnedTrainer::SendToShim() {
  if (shim_.connected()) {
    shim_.Send(command_);
  }
}

void SpawnedTrainer::SendToTrainer(const internal::TrainerCommand& command) {
  if (trainer_.connected()) {
    trainer_.Send(command);
  }
}

bool SpawnedTrainer::HasLease(absl::Duration deadline) const {
  return shim_.connected() && shim_status_.lease_deadline_boottime_nanos() > 0 &&
         shim_status_.lease_deadline_boottime_nanos() >= absl::ToInt64Nanoseconds(deadline);
}

std::vector<internal::TrainerReport> SpawnedTrainer::Poll(absl::Duration now, bool read_trainer) {
  std::vector<internal::TrainerReport> reports;
  if (exited_) {
    return reports;
  }
  // Read the trainer's messages before the shim's. When the shim reports that the trainer has exited, the trainer's
  // last messages may still be in the socket.
  if (trainer_.MaybeConnect(now)) {
    ++num_trainer_connections_;
    hello_.reset();
  }
  if (read_trainer) {
    ReadTrainer(&reports);
  }
  PollShim(now);
  if (exited_) {
    if (read_trainer) {
      ReadTrainer(&reports);  // Messages that came after the first read and before the exit.
    }
    trainer_.Close();
  }
  return reports;
}

void SpawnedTrainer::ReadTrainer(std::vector<internal::TrainerReport>* reports) {
  bool more = trainer_.connected();
  while (more) {
    std::vector<std::string> payloads;
    const absl::Status status = trainer_.Exchange(&payloads);
    for (const std::string& payload : payloads) {
      internal::TrainerReport report;
      if (!report.ParseFromString(payload)) {
        sent_unreadable_ = true;
        continue;
      }
      if (report.has_hello()) {
        hello_ = report.hello();
        may_have_been_ready_ = true;
      }
      reports->push_back(std::move(report));
    }
    if (!status.ok()) {
      trainer_.Close();
    }
    more = status.ok() && !payloads.empty();
  }
}

void SpawnedTrainer::PollShim(absl::Duration now) {
  was_suspended_ = false;
  if (shim_.MaybeConnect(now) && (command_.kill() || command_.lease_deadline_boottime_nanos() > 0)) {
    shim_.Send(command_);
  }
  if (shim_.connected()) {
    std::vector<std::string> payloads;
    const absl::Status status = shim_.Exchange(&payloads);
    for (const std::string& payload : payloads) {
      internal::ShimStatus shim_status;
      if (shim_status.ParseFromString(payload)) {
        shim_status_ = shim_status;
        was_suspended_ = was_suspended_ || shim_status.suspended();
      }
    }
    if (!status.ok()) {
      shim_.Close();
    }
  }
  if (!shim_.connected() && now >= next_search_) {
    next_search_ = now + (shim_status_.exited() ? absl::ZeroDuration() : kSearchInterval);
    DetectExit();
  }
}

bool SpawnedTrainer::ShimIsAlive() const {
  const internal::SpawnRecord& record = folder_.record();
  if (record.shim_pid() == 0) {
    return !ProcessesStartedWith(kTokenVariable, record.token()).empty();
  }
  return ProcessHandle::Open({record.boot_id(), record.shim_pid(), record.shim_start_ticks()}).ok();
}

void SpawnedTrainer::DetectExit() {
  exit_ = folder_.ReadExit();
  if (exit_.has_value()) {
    exited_ = true;
  } else if (!ShimIsAlive()) {
    // The shim is gone. If the shim wrote an exit file, that file exists by now. The shim may have left processes
    // behind: find them by the spawn's token in their environment, and kill them.
    exit_ = folder_.ReadExit();
    const std::vector<ProcessIdentity> left = ProcessesStartedWith(kTokenVariable, folder_.record().token());
    for (const ProcessIdentity& identity : left) {
      if (absl::StatusOr<ProcessHandle> process = ProcessHandle::Open(identity); process.ok()) {
        process->Signal(SIGKILL).IgnoreError();
      }
    }
    exited_ = exit_.has_value() || left.empty();
    if (exited_ && !exit_.has_value() && shim_status_.exited()) {
      exit_ = shim_status_;  // The shim could not write the file, for example because the disk has become read-only.
    }
  }
}

std::string SpawnedTrainer::WhyNotReady() const {
  if (may_have_been_ready_ || killed() || !exit_.has_value() || exit_->killed()) {
    return "";
  }
  std::string how;
  if (exit_->out_of_memory()) {
    how = "because the kernel killed it for want of memory";
  } else if (exit_->signal() != 0 && exit_->signal() != SIGKILL && exit_->signal() != SIGTERM) {
    how = absl::StrCat("by signal ", exit_->signal());
  } else if (exit_->exit_code() != 0) {
    how = absl::StrCat("with exit code ", exit_->exit_code());
  } else {
    return "";  // Somebody ended it, which says nothing about the device.
  }
  const std::string line = folder_.LastLogLine();
  return absl::StrCat("the trainer ended before it was ready, ", how, line.empty() ? "" : ": ", line);
}

}  // namespace ampd::agent
