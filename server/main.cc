#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/grpc/grpc_log.h"
#include "base/ipc/signals.h"
#include "base/log.h"
#include "base/timed_wait.h"
#include "server/init/init.h"
#include "server/monitoring/log_counter.h"
#include "server/server.h"
#include "server/server_config.h"

namespace {

// Raises the process's limit of file descriptors as far as possible, because each connection and each file needs one.
// The server derives its limit of connections from it.
void RaiseFileLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Limits malloc to one arena per core, at least two. By default glibc lets contending threads create up to eight arenas
// per core, and each arena keeps its freed memory. gRPC has many threads: after a million points were sent past stalled
// watchers, a server with the limit held 5 MiB less memory than one without it.
void BoundArenas() { mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()))); }

// Returns free memory to the system. After many calls at once, glibc holds free memory between used blocks and does not
// return it by itself.
void GiveBackMemory() {
  constexpr size_t kMuch = size_t{64} << 20;
  if (mallinfo2().fordblks > kMuch) {
    malloc_trim(0);
  }
}

// Time between checks for free memory.
constexpr absl::Duration kBetweenTrims = absl::Seconds(5);

// Turns off deadlock detection in release builds. Debian's Abseil checks the order of locks at every lock operation,
// and takes one lock that all threads share; under load this makes calls a tenth slower. Debug builds keep the check.
void TrustLockOrder() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

// Writes one line to stderr, as JSON if the log format is JSON.
void CannotGoOn(const ampd::server::ServerConfig& config, const absl::Status& why) {
  const std::string message(why.message());
  if (config.log_format == "json") {
    ampd::Log(spdlog::level::critical, message, {{"reason", ampd::ReasonOf(why)}});
  } else {
    std::fprintf(stderr, "ampd-server: %s\n", message.c_str());
  }
}

// Waits for the first reason to stop. Thread-safe.
class Leaving {
 public:
  // Begins to stop the process; `why` is OK if the stop was requested. Returns false if stopping has already begun.
  bool Begin(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    return !std::exchange(has_begun_, true) && (why_ = why, true);
  }
  // Waits for the reason and returns it; returns nothing if there is none within `timeout`.
  std::optional<absl::Status> AwaitFor(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return ampd::AwaitFor(mutex_, absl::Condition(&has_begun_), timeout) ? std::optional(why_) : std::nullopt;
  }

 private:
  absl::Mutex mutex_;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

// How much longer than the calls' grace period the server may take to stop. It needs this time to write pending data
// and to end its threads.
constexpr absl::Duration kStopMargin = absl::Seconds(5);

// Stops the server. If the server does not stop in time, ends the process; everything that the server acknowledged is
// on disk by then.
void StopInTime(ampd::server::Server* server, absl::Duration grace) {
  absl::Mutex mutex;
  bool has_stopped = false;
  std::thread watchdog([&] {
    absl::MutexLock lock(&mutex);
    if (!ampd::AwaitFor(mutex, absl::Condition(&has_stopped), grace + kStopMargin)) {
      ampd::Log(spdlog::level::critical,
                absl::StrCat("the server did not stop within ", absl::FormatDuration(grace + kStopMargin),
                             "; it ends now, and all that it answered is on disk"));
      std::_Exit(ampd::server::kExitInternal);
    }
  });
  server->Stop();
  {
    absl::MutexLock lock(&mutex);
    has_stopped = true;
  }
  watchdog.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (ampd::server::IsInitCommand(argc, argv)) {
    return ampd::server::RunInitCommand(argc, argv);
  }
  ampd::server::ParsedConfig parsed = ampd::server::ParseServerConfig(argc, argv);
  if (!parsed.run) {
    std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.output.c_str());
    return parsed.exit_code;
  }
  // Lets the kernel reap child processes. The server starts none, but as the first process of a container it inherits
  // orphans.
  std::signal(SIGCHLD, SIG_IGN);
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
    CannotGoOn(parsed.config, server.status());
    return ampd::server::ExitCodeOf(server.status());
  }
  const std::optional<ampd::ListenAddress>& listen = parsed.config.listen;
  ampd::Log(spdlog::level::info,
            absl::StrCat("listening on ",
                         listen.has_value()
                             ? absl::StrCat(listen->host, ":", (*server)->port(),
                                            parsed.config.tls.certificate.empty() ? "" : " with TLS", " and on ")
                             : std::string(),
                         "the socket ", parsed.config.socket,
                         parsed.config.proxy_socket.empty() ? "" : " and for a proxy on " + parsed.config.proxy_socket,
                         ", metrics on ", parsed.config.metrics_listen.host, ":", (*server)->metrics_port(),
                         ", data in ", parsed.config.data_dir));
  if (listen.has_value() && parsed.config.trusts_loopback) {
    ampd::Log(spdlog::level::warn,
              "every user of this host is an admin over --listen, because of --allow-unauthenticated-loopback");
  }
  signals.Start([&leaving](int signal) {
    if (signal == SIGHUP) {
      ampd::Log(spdlog::level::info, "SIGHUP is ignored: there is no configuration to read again");
      return;
    }
    if (leaving.Begin(absl::OkStatus())) {
      ampd::Log(spdlog::level::info, absl::StrCat("signal ", signal, ": draining"));
    }
  });
  std::optional<absl::Status> reason;
  while (!reason.has_value()) {
    reason = leaving.AwaitFor(kBetweenTrims);
    GiveBackMemory();
  }
  const absl::Status why = *std::move(reason);
  StopInTime(server->get(), parsed.config.drain_grace);
  if (!why.ok()) {
    CannotGoOn(parsed.config, why);
    return ampd::server::ExitCodeOf(why);
  }
  ampd::Log(spdlog::level::info, "all state is on disk");
  return ampd::server::kExitOk;
}
