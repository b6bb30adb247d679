#include <malloc.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
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
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/signals.h"
#include "server/log_counter.h"
#include "server/server.h"
#include "server/server_config.h"

namespace {

// Connections and files take a descriptor each. The server bounds its connections by this limit.
void RaiseFileLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// glibc gives threads that meet in malloc up to eight arenas a core, each of which keeps what was freed in it. gRPC has
// many threads: with one arena a core a million points past stalled watchers leave 5 MiB less behind.
void BoundArenas() { mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency()))); }

// A flood of calls leaves free memory between what is still used, which glibc gives back to the system only when asked.
void GiveBackMemory() {
  constexpr size_t kMuch = size_t{64} << 20;
  if (mallinfo2().fordblks > kMuch) {
    malloc_trim(0);
  }
}

// Between looks for free memory.
constexpr absl::Duration kBetweenTrims = absl::Seconds(5);

// Debian's Abseil looks for cycles at every lock, with one lock of its own for all threads. That is for the builds that
// look for mistakes; under load it takes a tenth of the calls.
void TrustLockOrder() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

// The counter is told of each line that is written.
void StartLogging(const std::string& level, std::shared_ptr<ampd::server::LogCounter> counter) {
  auto logger = spdlog::stderr_color_mt("ampd-server");
  logger->sinks().push_back(std::move(counter));
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

// Waits for the first reason to leave. Thread-safe.
class Leaving {
 public:
  // OK: it was asked for. False when it has begun already.
  bool Begin(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    return !std::exchange(has_begun_, true) && (why_ = why, true);
  }
  // The reason; nothing when there is none in time.
  std::optional<absl::Status> AwaitFor(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&has_begun_), timeout) ? std::optional(why_) : std::nullopt;
  }

 private:
  absl::Mutex mutex_;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

// What the server needs beyond the grace of the calls: to write what it holds, and to end its threads.
constexpr absl::Duration kStopMargin = absl::Seconds(5);

// Ends the process when the server does not stop in time. Whatever was answered is on disk by then.
void StopInTime(ampd::server::Server* server, absl::Duration grace) {
  absl::Notification stopped;
  std::thread watchdog([&stopped, grace] {
    if (!stopped.WaitForNotificationWithTimeout(grace + kStopMargin)) {
      spdlog::critical("the server did not stop within {}; it ends now, and all that it answered is on disk",
                       absl::FormatDuration(grace + kStopMargin));
      std::_Exit(ampd::server::kExitInternal);
    }
  });
  server->Stop();
  stopped.Notify();
  watchdog.join();
}

}  // namespace

int main(int argc, char** argv) {
  ampd::server::ParsedConfig parsed = ampd::server::ParseServerConfig(argc, argv);
  if (!parsed.run) {
    std::fprintf(parsed.exit_code == 0 ? stdout : stderr, "%s\n", parsed.output.c_str());
    return parsed.exit_code;
  }
  // It starts no process. As the first one of a container it gets what others leave behind, which the kernel reaps so.
  std::signal(SIGCHLD, SIG_IGN);
  BoundArenas();
  TrustLockOrder();
  ampd::SignalThread signals({SIGTERM, SIGINT, SIGHUP});
  const auto log_counter = std::make_shared<ampd::server::LogCounter>();
  StartLogging(parsed.config.log_level, log_counter);
  RaiseFileLimit();
  Leaving leaving;
  auto server = ampd::server::Server::Start(parsed.config, log_counter,
                                            [&leaving](const absl::Status& why) { leaving.Begin(why); });
  if (!server.ok()) {
    std::fprintf(stderr, "ampd-server: %s\n", std::string(server.status().message()).c_str());
    return ampd::server::ExitCodeOf(server.status());
  }
  spdlog::info("listening on {}:{}, metrics on {}:{}, data in {}", parsed.config.listen.host, (*server)->port(),
               parsed.config.metrics_listen.host, (*server)->metrics_port(), parsed.config.data_dir);
  signals.Start([&leaving](int signal) {
    if (signal == SIGHUP) {
      spdlog::info("SIGHUP is ignored: there is no configuration to read again");
      return;
    }
    if (leaving.Begin(absl::OkStatus())) {
      spdlog::info("signal {}: draining", signal);
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
    std::fprintf(stderr, "ampd-server: %s\n", std::string(why.message()).c_str());
    return ampd::server::ExitCodeOf(why);
  }
  spdlog::info("all state is on disk");
  return ampd::server::kExitOk;
}
