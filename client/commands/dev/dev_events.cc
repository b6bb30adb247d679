#include "client/commands/dev/dev_events.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/timed_wait.h"

namespace ampd::client {

DevEvents::DevEvents() : signals_({SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
  std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would suppress SIGCHLD
  signals_.Start([this](int signal) { Add(signal != SIGCHLD); });
}

absl::Status DevEvents::WatchFolder(const std::string& folder) {
  changes_ = UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  end_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  constexpr uint32_t kChanges = IN_CREATE | IN_MOVED_TO | IN_MODIFY;
  if (!changes_.ok() || !end_.ok() || inotify_add_watch(changes_.get(), folder.c_str(), kChanges) < 0) {
    return ErrnoError(errno, absl::StrCat("watching ", folder));
  }
  watcher_ = std::thread([this] { ReadChanges(); });
  return absl::OkStatus();
}

void DevEvents::StopWatching() {
  if (watcher_.joinable()) {
    eventfd_write(end_.get(), 1);
    watcher_.join();
  }
}

int DevEvents::num_stops() const {
  absl::MutexLock lock(&mutex_);
  return num_stops_;
}

uint64_t DevEvents::seen() const {
  absl::MutexLock lock(&mutex_);
  return num_events_;
}

void DevEvents::WaitPast(uint64_t seen, absl::Duration deadline) {
  absl::MutexLock lock(&mutex_);
  const auto has_event = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_events_ > seen; };
  AwaitUntil(mutex_, absl::Condition(&has_event), deadline);
}

void DevEvents::Add(bool stop) {
  absl::MutexLock lock(&mutex_);
  ++num_events_;
  num_stops_ += stop ? 1 : 0;
}

void DevEvents::ReadChanges() {
  pollfd descriptors[] = {{changes_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
  while (true) {
    const bool failed = poll(descriptors, 2, -1) < 0 && errno != EINTR;
    if (failed || descriptors[1].revents != 0) {
      return;
    }
    // Discard the events without looking at them: the waiting thread itself finds out what has changed.
    alignas(inotify_event) char events[4096];
    while (read(changes_.get(), events, sizeof(events)) > 0) {
    }
    Add(/*stop=*/false);
  }
}

}  // namespace ampd::client
