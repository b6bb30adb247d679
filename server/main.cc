#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/flags/reloader.h"
#include "base/grpc/grpc_log.h"
#include "base/ipc/signals.h"
#include "base/log.h"
#include "base/timed_wait.h"
#include "server/backup/backup_commands.h"
#include "server/init/init.h"
#include "server/monitoring/log_counter.h"
#include "server/monitoring/memory_watch.h"
#include "server/server.h"
#include "server/server_config.h"

namespace {

// Raises the process's limit of file descriptors as far as possible, because each connection and each file needs one.
// The server derives its limit of connections from this limit.
void RaiseFileLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Limits malloc to one arena per core, and at least two. By default glibc lets contending threads create up to eight
// arenas per core, and each arena keeps its freed memory. gRPC has many threads. In a test, workers sent a million
// metric points while some watchers read nothing; with this limit the server then used 5 MiB less memory.
void BoundArenas() { mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()))); }

// How often the program checks for free memory to return to the system.
constexpr absl::Duration kBetweenTrims = absl::Seconds(5);

// Turns off deadlock detection in release builds. Debian's Abseil checks the order of locks at every lock operation,
// and takes one lock that all threads share. Under load, these checks make calls a tenth slower. Debug builds keep
// them.
void TrustLockOrder() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

// Writes one line to stderr, as JSON if the log format is JSON.
void PrintFailure(const ampd::server::ServerConfig& config, const absl::Status& why) {
  const std::string message(why.message());
  if (config.log_format == "json") {
    ampd::Log(spdlog::level::critical, message, {{"reason", ampd::ReasonOf(why)}});
  } else {
    std::fprintf(stderr, "ampd-server: %s\n", message.c_str());
  }
}

// Why the process stops. Any thread may call Begin with a reason, and only the first reason counts. AwaitFor waits for
// it. Thread-safe.
class Leaving {
 public:
  // Begins to stop the process; `why` is OK if the stop was requested. Returns false if stopping has already begun.
  bool Begin(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    return !std::exchange(has_begun_, true) && (why_ = why, true);
  }
  // Waits for a reason to stop and returns it. Returns nullopt if there is none within `timeout`.
  std::optional<absl::Status> AwaitFor(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return ampd::AwaitFor(mutex_, absl::Condition(&has_begun_), timeout) ? std::optional(why_) : std::nullopt;
  }

 private:
  absl::Mutex mutex_;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

// Logs the addresses on which the server listens, and warnings for its operator.
void LogStart(const ampd::server::ServerConfig& config, const ampd::server::Server& server) {
  const std::optional<ampd::ListenAddress>& listen = config.listen;
  ampd::Log(
      spdlog::level::info,
      absl::StrCat("listening on ",
                   listen.has_value() ? absl::StrCat(listen->host, ":", server.port(),
                                                     config.tls.certificate.empty() ? "" : " with TLS", " and on ")
                                      : std::string(),
                   "the socket ", config.socket,
                   config.proxy_socket.empty() ? "" : " and for a proxy on " + config.proxy_socket, ", metrics on ",
                   config.metrics_listen.host, ":", server.metrics_port(),
                   config.metrics_tls.empty() ? "" : " with TLS", ", data in ", config.data_dir));
  if (config.trusts_loopback) {
    ampd::Log(spdlog::level::warn, absl::StrCat("every user of this host is an admin over --listen",
                                                config.metrics_tls.empty() ? ", and may read /metrics" : "",
                                                ", because of --allow-unauthenticated-loopback"));
  }
}

// Reads the command line and the configuration file again for a running server, which applies the changes.
absl::StatusOr<ampd::ReadConfig> ReadAgain(int argc, char** argv, ampd::server::Server* server) {
  const ampd::server::ParsedConfig parsed = ampd::server::ParseServerConfig(argc, argv);
  if (!parsed.run) {
    return absl::InvalidArgumentError(parsed.output);
  }
  ampd::ReadConfig read{.settings = parsed.settings,
                        .log_level = parsed.config.log_level,
                        .reloadable = {"caller-limit", "tenant-limit"}};
  if (server->MayTakeGrants(parsed.config.grants)) {
    read.reloadable.insert("grant");
  }
  read.apply = [server, grants = parsed.config.grants, limits = parsed.config.limits] {
    server->SetRights(grants, limits);
  };
  return read;
}

// The time that the server may take to stop, beyond the grace period of the calls. It needs this time to write pending
// data and to end its threads.
constexpr absl::Duration kStopMargin = absl::Seconds(5);

// Stops the server. If it does not stop in time, ends the process with `exit_code`. Everything that the server
// acknowledged is on disk by then.
void StopInTime(ampd::server::Server* server, absl::Duration grace, int exit_code) {
  absl::Mutex mutex;
  bool has_stopped = false;
  std::thread watchdog([&] {
    absl::MutexLock lock(&mutex);
    if (!ampd::AwaitFor(mutex, absl::Condition(&has_stopped), grace + kStopMargin)) {
      ampd::Log(spdlog::level::critical,
                absl::StrCat("the server did not stop within ", absl::FormatDuration(grace + kStopMargin),
                             "; it ends now, and all that it answered is on disk"));
      std::_Exit(exit_code);
    }
  });
  server->Stop();
  {
    absl::MutexLock lock(&mutex);
    has_stopped = true;
  }
  watchdog.join();
}

// Maps the names of ampd::server::kServerCommands to their functions.
const std::map<std::string, int (*)(int, const char* const*)> kCommands = {
    {"init", ampd::server::RunInit},       {"cert", ampd::server::RunCert},   {"backup", ampd::server::RunBackup},
    {"restore", ampd::server::RunRestore}, {"check", ampd::server::RunCheck},
};

}  // namespace

int main(int argc, char** argv) {
  if (const auto command = kCommands.find(argc > 1 ? argv[1] : ""); command != kCommands.end()) {
    return command->second(argc - 1, argv + 1);
  }
  ampd::server::ParsedConfig parsed = ampd::server::ParseServerConfig(argc, argv);
  if (!parsed.run) {
    std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.output.c_str());
    return parsed.exit_code;
  }
  // Lets the kernel reap child processes. The server starts none, but as the first process of a container it inherits
  // orphans.
  std::signal(SIGCHLD, SIG_IGN);
  umask(0077);  // New files are accessible only to the server's user, even files that a library creates.
  BoundArenas();
  TrustLockOrder();
  ampd::SignalThread signals({SIGTERM, SIGINT, SIGHUP});
  const auto log_counter = std::make_shared<ampd::server::LogCounter>();
  ampd::StartLogging(ampd::LogFormatNamed(parsed.config.log_format), spdlog::level::from_str(parsed.config.log_level),
                     {log_counter});
  ampd::LogLinesOfGrpcAndProtobuf();
  RaiseFileLimit();
  Leaving leaving;
  auto server = ampd::server::Server::Start(parsed.config, log_counter,
                                            [&leaving](const absl::Status& why) { leaving.Begin(why); });
  if (!server.ok()) {
    PrintFailure(parsed.config, server.status());
    return ampd::server::ExitCodeOf(server.status());
  }
  LogStart(parsed.config, **server);
  ampd::Reloader reloader({.config_file = parsed.config_file,
                           .running = parsed.settings,
                           .read = [argc, argv, &server] { return ReadAgain(argc, argv, server->get()); }});
  signals.Start([&leaving, &reloader](int signal) {
    if (signal == SIGHUP) {
      reloader.Reload();
    } else if (leaving.Begin(absl::OkStatus())) {
      ampd::Log(spdlog::level::info, absl::StrCat("signal ", signal, ": draining"));
    }
  });
  std::optional<absl::Status> reason;
  while (!reason.has_value()) {
    reason = leaving.AwaitFor(kBetweenTrims);
    ampd::server::GiveBackMemory();
  }
  const absl::Status why = *std::move(reason);
  StopInTime(server->get(), parsed.config.drain_grace,
             why.ok() ? ampd::server::kExitInternal : ampd::server::ExitCodeOf(why));
  signals.Stop();  // Its callback uses objects that are destroyed before it.
  if (!why.ok()) {
    PrintFailure(parsed.config, why);
    return ampd::server::ExitCodeOf(why);
  }
  ampd::Log(spdlog::level::info, "all state is on disk");
  return ampd::server::kExitOk;
}
