#include <fcntl.h>
#include <sys/file.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/file.h"
#include "base/signals.h"
#include "base/status_macros.h"
#include "client/commands/child.h"
#include "client/commands/commands.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

constexpr char kSystemDatasets[] = "/usr/share/datasets";
constexpr absl::Duration kWorkerGrace = absl::Seconds(60);  // its trainers write a checkpoint first
constexpr absl::Duration kServerGrace = absl::Seconds(15);
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);

// Signals as conditions. Thread-safe.
class DevSignals {
 public:
  DevSignals() : signals_({SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    signals_.Start([this](int signal) {
      absl::MutexLock lock(&mutex_);
      (signal == SIGCHLD ? num_child_signals_ : num_stops_)++;
    });
  }

  int num_stops() const {
    absl::MutexLock lock(&mutex_);
    return num_stops_;
  }

  // Waits for more stops than `stops`, for a child's end, or until the timeout.
  void Wait(int stops, absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const int children = num_child_signals_;
    const auto news = [&] { return num_stops_ > stops || num_child_signals_ != children; };
    mutex_.AwaitWithTimeout(absl::Condition(&news), timeout);
  }

 private:
  mutable absl::Mutex mutex_;
  int num_stops_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_child_signals_ ABSL_GUARDED_BY(mutex_) = 0;
  SignalThread signals_;
};

std::string OwnFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

// Every data set of the system, then the user's own roots, which win.
std::vector<std::string> DataRoots(const std::vector<std::string>& given) {
  std::map<std::string, std::string> roots;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kSystemDatasets, error)) {
    if (entry.is_directory(error)) {
      roots[entry.path().filename().string()] = entry.path().string();
    }
  }
  for (const std::string& root : given) {
    const std::vector<std::string> parts = absl::StrSplit(root, absl::MaxSplits('=', 1));
    std::error_code missing;
    roots[parts[0]] = parts.size() == 2 ? fs::absolute(parts[1], missing).string() : "";
  }
  std::vector<std::string> lines;
  for (const auto& [name, path] : roots) {
    lines.push_back(absl::StrCat(name, "=", path));
  }
  return lines;
}

std::string LastLines(const std::string& path) {
  constexpr int64_t kMostRead = int64_t{64} << 20;
  const auto text = ReadFile(path, kMostRead);
  const std::vector<std::string> lines =
      text.ok() ? absl::StrSplit(*text, '\n', absl::SkipEmpty()) : std::vector<std::string>();
  std::string last;
  for (size_t i = lines.size() - std::min<size_t>(lines.size(), 5); i < lines.size(); ++i) {
    absl::StrAppend(&last, "\n    ", lines[i]);
  }
  return last;
}

// One `ampctl dev`: the state folder, locked, and the two programs. Single-threaded: the main thread.
class DevRun {
 public:
  DevRun(Session* session, const DevOptions& options) : session_(session), options_(options) {}

  absl::Status Start();
  absl::Status Run();
  void Stop();
  bool stopped() const { return signals_.num_stops() > 0; }

 private:
  std::string In(const std::string& name) const { return folder_ + "/" + name; }
  absl::Status TakeFolder();
  absl::Status StartServer();
  absl::Status StartWorker();
  absl::Status AwaitReady(const std::string& what, Child* child, const std::function<bool()>& ready);
  void StopChild(std::optional<Child>* child, absl::Duration grace);
  void Announce() const;

  Session* const session_;
  const DevOptions& options_;
  DevSignals signals_;  // before every thread of the client
  std::string folder_;
  UniqueFd lock_;
  std::optional<Child> server_;
  std::optional<Child> worker_;
  std::string address_;
  std::string metrics_address_;
  std::unique_ptr<JobClient> client_;
};

absl::Status DevRun::TakeFolder() {
  std::error_code error;
  folder_ = fs::absolute(options_.folder, error).string();
  fs::create_directories(folder_, error);
  if (error) {
    return ErrnoError(error.value(), absl::StrCat("making ", folder_));
  }
  const bool strange = !fs::exists(In("lock"), error) && !fs::is_empty(folder_, error);
  lock_ = UniqueFd(open(In("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock_.ok()) {
    return ErrnoError(errno, absl::StrCat("opening ", In("lock")));
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(absl::StatusCode::kFailedPrecondition, "DEV_RUNNING",
                 absl::StrCat("another ampctl dev runs in ", folder_, "; end it, or start in another folder"));
  }
  if (options_.clean && strange) {
    return Error(absl::StatusCode::kFailedPrecondition, "NOT_OURS",
                 absl::StrCat(folder_, " was not made by ampctl dev; it is left as it is"));
  }
  if (options_.clean) {
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      if (entry.path().filename() != "lock") {
        fs::remove_all(entry.path(), error);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status DevRun::AwaitReady(const std::string& what, Child* child, const std::function<bool()>& ready) {
  const absl::Time deadline = absl::Now() + options_.start_timeout;
  while (!ready()) {
    if (const auto& exit = child->PollExit(); exit.has_value()) {
      return absl::InternalError(
          absl::StrCat("ampd-", what, " ended at its start, ", *exit, ":", LastLines(In(what + ".log"))));
    }
    if (stopped()) {
      return absl::CancelledError("stopped");
    }
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("ampd-", what, " is not ready after ",
                                                      absl::FormatDuration(options_.start_timeout), "; see ",
                                                      In(what + ".log"), LastLines(In(what + ".log"))));
    }
    signals_.Wait(0, kLookAgain);
  }
  return absl::OkStatus();
}

absl::Status DevRun::StartServer() {
  const std::string port_file = In("ports");
  std::error_code error;
  fs::remove(port_file, error);
  AMPD_ASSIGN_OR_RETURN(
      server_, Child::Start({OwnFolder() + "/ampd-server", "--listen", absl::StrCat("127.0.0.1:", options_.port),
                             "--metrics-listen", absl::StrCat("127.0.0.1:", options_.metrics_port), "--data-dir",
                             In("server"), "--port-file", port_file},
                            In("server.log")));
  return AwaitReady("server", &*server_, [&] {
    const auto text = ReadFile(port_file, 1 << 10);
    const std::vector<std::string> ports =
        text.ok() ? absl::StrSplit(*text, '\n', absl::SkipEmpty()) : std::vector<std::string>();
    if (ports.size() < 2) {
      return false;
    }
    if (client_ == nullptr) {
      address_ = absl::StrCat("127.0.0.1:", ports[0]);
      metrics_address_ = absl::StrCat("127.0.0.1:", ports[1]);
      client_ = std::make_unique<JobClient>(JobClient::Options{address_, absl::Seconds(1)});
    }
    return client_->CheckHealth("").ok();
  });
}

absl::Status DevRun::StartWorker() {
  std::vector<std::string> command = {OwnFolder() + "/ampd-worker",
                                      "--server",
                                      address_,
                                      "--state-dir",
                                      In("worker"),
                                      "--checkpoint-root",
                                      In("checkpoints"),
                                      "--stop-trainers-on-exit"};
  for (const std::string& root : DataRoots(options_.data_roots)) {
    command.insert(command.end(), {"--data-root", root});
  }
  std::error_code error;
  for (const char* name : {"worker", "checkpoints"}) {
    fs::create_directories(In(name), error);
  }
  AMPD_ASSIGN_OR_RETURN(worker_, Child::Start(command, In("worker.log")));
  return AwaitReady("worker", &*worker_, [&] {
    const auto workers = client_->ListWorkers();
    return workers.ok() && !workers->empty() && workers->front().state() != v1::Worker::LOST;
  });
}

absl::Status DevRun::Start() {
  for (const std::string& root : options_.data_roots) {
    if (root.find('=') == std::string::npos || root.starts_with("=")) {
      return absl::InvalidArgumentError(absl::StrCat("--data-root is name=path, not '", root, "'"));
    }
  }
  AMPD_RETURN_IF_ERROR(TakeFolder());
  AMPD_RETURN_IF_ERROR(StartServer());
  // The address is there for other calls as soon as the server answers; jobs wait for the worker.
  AMPD_RETURN_IF_ERROR(StartWorker());
  AMPD_RETURN_IF_ERROR(WriteFileAtomically(In("context"), address_ + "\n"));
  Announce();
  return absl::OkStatus();
}

void DevRun::Announce() const {
  std::string devices;
  if (const auto workers = client_->ListWorkers(); workers.ok() && !workers->empty()) {
    for (const v1::Device& device : workers->front().devices()) {
      absl::StrAppend(&devices, devices.empty() ? "" : ", ", Printable(device.id()), " ", Printable(device.name()), " ",
                      FormatBytes(device.memory_total_bytes()));
    }
  }
  std::string roots;
  for (const std::string& root : DataRoots(options_.data_roots)) {
    absl::StrAppend(&roots, "  data     ", root, "\n");
  }
  std::printf(
      "  server   %s   metrics http://%s/metrics   state %s (removed with ampctl dev --clean)\n"
      "  worker   %s\n%s"
      "  try:     ampctl job submit -f job.yaml --follow   (in another terminal, in this folder)\n"
      "           ampctl job list\n"
      "  Ctrl-C ends both; running jobs write a checkpoint and go on at the next start\n",
      address_.c_str(), metrics_address_.c_str(), options_.folder.c_str(), devices.c_str(), roots.c_str());
  std::fflush(stdout);
}

absl::Status DevRun::Run() {
  while (!stopped()) {
    for (auto* child : {&server_, &worker_}) {
      const std::string name = child == &server_ ? "server" : "worker";
      if (const auto& exit = (*child)->PollExit(); exit.has_value()) {
        return absl::InternalError(absl::StrCat("ampd-", name, " ended, ", *exit, ":", LastLines(In(name + ".log"))));
      }
    }
    signals_.Wait(0, absl::Seconds(1));
  }
  return absl::OkStatus();
}

void DevRun::StopChild(std::optional<Child>* child, absl::Duration grace) {
  if (!child->has_value()) {
    return;
  }
  (*child)->Signal(SIGTERM);
  const int stops = signals_.num_stops();
  const absl::Time deadline = absl::Now() + grace;
  while (!(*child)->PollExit().has_value()) {
    if (absl::Now() > deadline || signals_.num_stops() > stops) {
      (*child)->Signal(SIGKILL);
    }
    signals_.Wait(stops, kLookAgain);
  }
}

void DevRun::Stop() {
  if (!server_.has_value()) {
    return;  // the folder may be another's
  }
  session_->Note("ending worker and server; once more Ctrl-C kills them");
  std::error_code error;
  fs::remove(In("context"), error);
  StopChild(&worker_, kWorkerGrace);
  StopChild(&server_, kServerGrace);
}

}  // namespace

int Dev(Session* session, const DevOptions& options) {
  DevRun run(session, options);
  absl::Status result = run.Start();
  if (result.ok()) {
    result = run.Run();
  }
  run.Stop();
  return result.ok() || run.stopped() ? kExitOk : session->Fail(result);
}

}  // namespace ampd::client
