#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/ipc/signals.h"

namespace ampd::client {

// What `ampctl dev` waits for, as one condition: signals to stop, the end of a child, and, while a folder is watched,
// its files' changes. Look at the world after seen() and before WaitPast(), and nothing is missed:
//   seen = news.seen();  if (what is wanted is there) return;  news.WaitPast(seen, deadline);
// Construct it before any other thread exists. Thread-safe.
class DevNews {
 public:
  DevNews();
  ~DevNews() { StopWatching(); }
  DevNews(const DevNews&) = delete;
  DevNews& operator=(const DevNews&) = delete;

  // Files that are made, renamed into or written to in the folder are news from here on. REQUIRES: none is watched.
  absl::Status WatchFolder(const std::string& folder);
  void StopWatching();

  int num_stops() const;  // SIGINT, SIGTERM and SIGHUP so far
  uint64_t seen() const;  // grows with every news
  // Waits for news beyond `seen`, or until the deadline, since boot.
  void WaitPast(uint64_t seen, absl::Duration deadline);

 private:
  void Add(bool stop);
  void ReadChanges();

  mutable absl::Mutex mutex_;
  int num_stops_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_news_ ABSL_GUARDED_BY(mutex_) = 0;
  UniqueFd changes_;
  UniqueFd end_;  // readable once the watching is to end
  std::thread watcher_;
  SignalThread signals_;
};

}  // namespace ampd::client
