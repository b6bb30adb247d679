#include <malloc.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/signals.h"
#include "server/log_counter.h"
#include "server/server.h"
#include "server/server_config.h"

namespace {

// Streams take a descriptor each, and gRPC 1.51 never accepts again once it has run out of them.
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
  auto server = ampd::server::Server::Start(parsed.config, log_counter);
  if (!server.ok()) {
    std::fprintf(stderr, "ampd-server: %s\n", std::string(server.status().message()).c_str());
    return ampd::server::ExitCodeOf(server.status());
  }
  spdlog::info("listening on {}:{}, metrics on {}:{}, data in {}", parsed.config.listen.host, (*server)->port(),
               parsed.config.metrics_listen.host, (*server)->metrics_port(), parsed.config.data_dir);
  absl::Notification leave;
  signals.Start([&leave](int signal) {
    if (signal == SIGHUP) {
      spdlog::info("SIGHUP is ignored: there is no configuration to read again");
      return;
    }
    if (!leave.HasBeenNotified()) {
      spdlog::info("signal {}: draining", signal);
      leave.Notify();
    }
  });
  leave.WaitForNotification();
  (*server)->Stop();
  spdlog::info("all state is on disk");
  return ampd::server::kExitOk;
}
