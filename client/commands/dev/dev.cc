#include "client/commands/dev/dev.h"

#include <fcntl.h>
#include <sys/file.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"
#include "base/ipc/child_reaper.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/dev/child.h"
#include "client/commands/dev/data_access.h"
#include "client/commands/dev/dev_clean.h"
#include "client/commands/dev/dev_events.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

struct DevOptions {
  std::string folder = ".ampd";
  int port = 7070;
  int metrics_port = 7071;
  std::vector<std::string> data_roots;
  std::string data_group;  // jobs may also read files of this group; empty: no group
  bool clean = false;
  bool confirmed = false;  // whether --clean deletes without asking
  absl::Duration start_timeout = absl::Seconds(30);
};

constexpr absl::Duration kWorkerGrace = absl::Seconds(60);  // time for the worker's trainers to write a checkpoint
constexpr int64_t kMostLogRead = int64_t{64} << 20;
constexpr absl::Duration kServerGrace = absl::Seconds(15);
constexpr int kMaxPort = 65535;

std::string OwnFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

// Returns the last line of a program's log, which usually says why the program ended.
std::string LastLine(const std::string& path) {
  const auto text = ReadFile(path, kMostLogRead);
  const std::vector<std::string> lines =
      text.ok() ? absl::StrSplit(*text, '\n', absl::SkipEmpty()) : std::vector<std::string>();
  return lines.empty() ? "it wrote nothing" : lines.back();
}

// One run of `ampctl dev`. It locks its state folder, and runs a server and a worker. Single-threaded; owner: the main
// thread.
class DevRun {
 public:
  DevRun(Session* session, const DevOptions& options) : session_(session), options_(options) {}

  absl::Status Start();
  absl::Status Run();
  void Stop();
  bool stopped() const { return events_.num_stops() > 0; }

 private:
  std::string In(const std::string& name) const { return folder_ + "/" + name; }
  absl::Status LockFolder();
  absl::Status StartServer();
  absl::Status StartWorker();
  absl::Status EndedAtStart(const std::string& what, const std::string& exit) const;
  absl::Status AwaitReady(const std::string& what, Child* child, const std::function<bool()>& ready);
  void StopChild(std::optional<Child>* child, absl::Duration grace);
  void Announce() const;

  Session* const session_;
  const DevOptions& options_;
  DevEvents events_;  // constructed before the client starts any thread
  std::string folder_;
  UniqueFd lock_;
  std::optional<Child> server_;
  std::optional<Child> worker_;
  std::string address_;
  std::string metrics_address_;
  std::string devices_;  // From the worker's ready file, as is worker_metrics_.
  std::string worker_metrics_;
  std::unique_ptr<JobClient> client_;
};

absl::Status DevRun::LockFolder() {
  std::error_code error;
  folder_ = fs::absolute(options_.folder, error).string();
  // Examine only this folder. The server and the worker examine their own folders in it.
  const absl::StatusOr<std::vector<std::string>> lines = PreparePrivateFolder(
      {.path = folder_, .what = "the folder", .depth = 1, .others_may_enter = false, .readable = {}});
  if (!lines.ok()) {
    return ReasonOf(lines.status()) == "OPEN_TO_OTHERS"
               ? lines.status()
               : absl::FailedPreconditionError(absl::StrCat(
                     "the folder ", folder_, " cannot be created: ", std::string(lines.status().message())));
  }
  for (const std::string& line : *lines) {
    WriteMessage(line + "\n");
  }
  lock_ = UniqueFd(open(In("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(In("lock"), " cannot be opened: ", std::strerror(errno)));
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(absl::StatusCode::kFailedPrecondition, "DEV_RUNNING",
                 absl::StrCat("another ampctl dev is running in ", folder_, "; stop it, or use another folder"));
  }
  return options_.clean ? CleanDevFolder(folder_) : absl::OkStatus();
}

absl::Status DevRun::AwaitReady(const std::string& what, Child* child, const std::function<bool()>& ready) {
  const absl::Duration deadline = SystemClock().SinceBoot() + options_.start_timeout;
  while (true) {
    const uint64_t seen = events_.seen();
    if (ready()) {
      return absl::OkStatus();
    }
    if (const auto& exit = child->PollExit(); exit.has_value()) {
      return EndedAtStart(what, *exit);
    }
    if (stopped()) {
      return absl::CancelledError("stopped");
    }
    if (SystemClock().SinceBoot() > deadline) {
      return Error(absl::StatusCode::kDeadlineExceeded, kWaitTimedOut,
                   absl::StrCat("ampd-", what, " is not ready after ", absl::FormatDuration(options_.start_timeout),
                                ": ", LastLine(In(what + ".log")), "; full log: ", In(what + ".log")));
    }
    events_.WaitPast(seen, deadline);
  }
}

absl::Status DevRun::EndedAtStart(const std::string& what, const std::string& exit) const {
  constexpr char kAddressTaken[] = "exit status 69";  // the server's port is taken; see docs/exit-codes.md
  const std::string log = LastLine(In(what + ".log"));
  if (what == "server" && exit == kAddressTaken) {
    return Error(absl::StatusCode::kFailedPrecondition, "ADDRESS_TAKEN",
                 absl::StrCat(log, "; use free ports: ampctl dev --port 0 --metrics-port 0"));
  }
  return Error(
      absl::StatusCode::kInternal, "DID_NOT_START",
      absl::StrCat("ampd-", what, " ended during startup, ", exit, ": ", log, "; full log: ", In(what + ".log")));
}

absl::Status DevRun::StartServer() {
  const std::string port_file = In("ports");
  std::error_code error;
  fs::remove(port_file, error);
  AMPD_ASSIGN_OR_RETURN(server_, Child::Start({OwnFolder() + "/ampd-server", "--allow-unauthenticated-loopback",
                                               "--listen", absl::StrCat("127.0.0.1:", options_.port),
                                               "--metrics-listen", absl::StrCat("127.0.0.1:", options_.metrics_port),
                                               "--data-dir", In("server"), "--port-file", port_file},
                                              In("server.log")));
  // The server writes its port file when it is ready for calls.
  AMPD_RETURN_IF_ERROR(AwaitReady("server", &*server_, [&] { return fs::exists(port_file, error); }));
  AMPD_ASSIGN_OR_RETURN(const std::string text, ReadFile(port_file, 1 << 10));
  const std::vector<std::string> ports = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (ports.size() != 2) {
    return absl::InternalError(absl::StrCat("the server wrote ", ports.size(), " ports to ", port_file,
                                            " instead of 2; use ampctl and ampd-server of the same version"));
  }
  address_ = absl::StrCat("127.0.0.1:", ports[0]);
  metrics_address_ = absl::StrCat("127.0.0.1:", ports[1]);
  client_ = std::make_unique<JobClient>(JobClient::Options{.server = {.address = address_, .token = "", .tls = {}}});
  return client_->IsServing("").status();
}

absl::Status DevRun::StartWorker() {
  std::vector<std::string> command = {
      OwnFolder() + "/ampd-worker", "--server",        address_,           "--state-dir", In("worker"),
      "--checkpoint-root",          In("checkpoints"), "--metrics-listen", "127.0.0.1:0", "--stop-trainers-on-exit"};
  for (const std::string& root : DataRoots(options_.data_roots)) {
    command.insert(command.end(), {"--data-root", root});
  }
  if (!options_.data_group.empty()) {
    command.insert(command.end(), {"--data-group", options_.data_group});
  }
  std::error_code error;
  const std::string ready_file = In("worker-ready");
  fs::remove(ready_file, error);
  command.insert(command.end(), {"--ready-file", ready_file});
  AMPD_ASSIGN_OR_RETURN(worker_, Child::Start(command, In("worker.log")));
  // The worker writes its ready file when the server has accepted the worker (worker/agent/ready_file.h).
  AMPD_RETURN_IF_ERROR(AwaitReady("worker", &*worker_, [&] { return fs::exists(ready_file, error); }));
  AMPD_ASSIGN_OR_RETURN(const std::string text, ReadFile(ready_file, 1 << 16));
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  worker_metrics_ = Printable(parts.first);
  const std::vector<std::string> devices = absl::StrSplit(parts.second, '\n', absl::SkipEmpty());
  devices_ = Printable(absl::StrJoin(devices, "; "));
  return absl::OkStatus();
}

absl::Status DevRun::Start() {
  AMPD_RETURN_IF_ERROR(LockFolder());
  for (const char* name : {"server.log", "worker.log"}) {
    std::error_code missing;
    fs::rename(In(name), In(std::string(name) + ".old"), missing);
  }
  AMPD_RETURN_IF_ERROR(events_.WatchFolder(folder_));
  AMPD_RETURN_IF_ERROR(StartServer());
  AMPD_RETURN_IF_ERROR(StartWorker());
  events_.StopWatching();
  // Write the server's address only after the worker is ready: other commands read the address from this file and
  // expect a worker.
  AMPD_RETURN_IF_ERROR(WriteFileAtomically(In("context"), address_ + "\n"));
  Announce();
  return absl::OkStatus();
}

void DevRun::Announce() const {
  std::string roots;
  for (const std::string& root : DataRoots(options_.data_roots)) {
    absl::StrAppend(&roots, "  data     ", root, "\n");
  }
  WriteFormatted(
      "  server   %s   metrics http://%s/metrics\n"
      "  worker   %s\n"
      "           metrics http://%s/metrics\n%s"
      "  state    %s   (delete it with: ampctl dev --clean)\n"
      "  try      in another terminal, in this folder:\n"
      "           ampctl job submit -f job.yaml --follow\n"
      "           ampctl job list\n"
      "  Ctrl-C ends server and worker; running jobs write a checkpoint and resume at the next start\n",
      address_.c_str(), metrics_address_.c_str(), devices_.c_str(), worker_metrics_.c_str(), roots.c_str(),
      folder_.c_str());
  FlushOutput();
}

absl::Status DevRun::Run() {
  while (true) {
    const uint64_t seen = events_.seen();
    if (stopped()) {
      return absl::OkStatus();
    }
    // If ampctl is process 1 of a container, processes that a worker leaves behind become its children. Collect those
    // that have ended.
    ReapAdopted([this](pid_t pid) { return pid == server_->pid() || pid == worker_->pid(); });
    for (auto* child : {&server_, &worker_}) {
      const std::string name = child == &server_ ? "server" : "worker";
      if (const auto& exit = (*child)->PollExit(); exit.has_value()) {
        // Quote the last line of the log, which says why the program ended. If a signal killed the program, no line
        // says why.
        const std::string why = absl::StartsWith(*exit, "signal") ? "" : ": " + LastLine(In(name + ".log"));
        return Error(absl::StatusCode::kInternal, "ENDED",
                     absl::StrCat("ampd-", name, " ended, ", *exit, why, "; its log: ", In(name + ".log")));
      }
    }
    events_.WaitPast(seen, absl::InfiniteDuration());
  }
}

void DevRun::StopChild(std::optional<Child>* child, absl::Duration grace) {
  if (!child->has_value()) {
    return;
  }
  (*child)->Signal(SIGTERM);
  const int stops = events_.num_stops();
  absl::Duration deadline = SystemClock().SinceBoot() + grace;
  while (true) {
    const uint64_t seen = events_.seen();
    if ((*child)->PollExit().has_value()) {
      return;
    }
    if (SystemClock().SinceBoot() >= deadline || events_.num_stops() > stops) {
      (*child)->Signal(SIGKILL);
      deadline = absl::InfiniteDuration();
    }
    events_.WaitPast(seen, deadline);
  }
}

void DevRun::Stop() {
  if (!server_.has_value()) {
    return;  // the folder may belong to another `ampctl dev`
  }
  if (!server_->PollExit().has_value() || (worker_.has_value() && !worker_->PollExit().has_value())) {
    session_->Note("stopping worker and server; press Ctrl-C again to kill them");
  }
  std::error_code error;
  fs::remove(In("context"), error);
  StopChild(&worker_, kWorkerGrace);
  StopChild(&server_, kServerGrace);
}

int Dev(Session* session, const DevOptions& options) {
  if (options.port == options.metrics_port && options.port != 0) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("--port and --metrics-port are both ", options.port, "; give two different ports")));
  }
  if (const absl::Status named = CheckDataRootNames(options.data_roots); !named.ok()) {
    return session->Fail(named);
  }
  // Ask before the program handles signals, so that Ctrl-C at the question ends the command.
  if (const absl::Status allowed =
          options.clean ? ConfirmDevClean(options.folder, options.confirmed) : absl::OkStatus();
      !allowed.ok()) {
    if (absl::IsCancelled(allowed)) {
      session->Note(std::string(allowed.message()));
      return kExitFailure;
    }
    return session->Fail(allowed);
  }
  DevRun run(session, options);
  absl::Status result = run.Start();
  if (result.ok()) {
    result = run.Run();
  }
  // Print the error now, because run.Stop() waits until the trainers have written a checkpoint.
  const int exit_code = result.ok() || run.stopped() ? kExitOk : session->Fail(result);
  run.Stop();
  return exit_code;
}

std::vector<Argument> ArgumentsOf(DevOptions* options) {
  return {
      {.name = "--port",
       .value = &options->port,
       .text = "N",
       .help = "Port for ampctl and other clients (default 7070; 0 picks a free port)",
       .check = InRange(0, kMaxPort)},
      {.name = "--metrics-port",
       .value = &options->metrics_port,
       .text = "N",
       .help = "Port for Prometheus metrics (default 7071; 0 picks a free port)",
       .check = InRange(0, kMaxPort)},
      {.name = "--data-root",
       .value = &options->data_roots,
       .text = "NAME=PATH",
       .help = "Let job files read the folder PATH as NAME/...; repeatable. Each folder in /usr/share/datasets is "
               "added under its own name",
       .check = CheckDataRoot,
       .is_path = true},
      {.name = "--data-group",
       .value = &options->data_group,
       .text = "GROUP",
       .help = "Let jobs also read files that only this Unix group (its name or number) may read (default: only files "
               "that all users may read)",
       .check = CheckGroup},
      {.name = "--clean",
       .value = &options->clean,
       .help = "Before starting, ask for confirmation, then delete everything in ./.ampd (jobs, histories, "
               "checkpoints)"},
      Yes(&options->confirmed)};
}

}  // namespace

Command DevCommand() {
  const auto options = std::make_shared<DevOptions>();
  return {.name = "dev",
          .help =
              "Run a server and a worker on this machine until Ctrl-C, at which running jobs write a checkpoint; they "
              "resume with the next ampctl dev. Jobs and checkpoints stay in ./.ampd. While it runs, ampctl commands "
              "in this folder use this server, unless --address or AMPD_ADDRESS names another",
          .examples =
              "  ampctl dev\n"
              "  ampctl dev --port 0 --metrics-port 0        if 7070 or 7071 is in use\n"
              "  ampctl dev --data-root mnist=/data/mnist    job files may then name mnist/train-images-idx3-ubyte.gz",
          .arguments = ArgumentsOf(options.get()),
          .run = [options](Session* session) { return Dev(session, *options); }};
}

}  // namespace ampd::client
