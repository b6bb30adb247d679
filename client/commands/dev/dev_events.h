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

// Combines the events that `ampctl dev` waits for: stop signals, the end of a child, and, while a folder is watched,
// changes of its files. To miss nothing, read seen() first, then check the state, then call WaitPast():
//   seen = events.seen();  if (the wanted state is reached) return;  events.WaitPast(seen, deadline);
// Construct it before any other thread exists. Thread-safe.
class DevEvents {
 public:
  DevEvents();
  ~DevEvents() { StopWatching(); }
  DevEvents(const DevEvents&) = delete;
  DevEvents& operator=(const DevEvents&) = delete;

  // Starts to watch the folder: every file that is created in it, renamed into it or written becomes an event.
  // REQUIRES: no folder is watched yet.
  absl::Status WatchFolder(const std::string& folder);
  void StopWatching();

  int num_stops() const;  // number of SIGINT, SIGTERM and SIGHUP so far
  uint64_t seen() const;  // grows with every event
  // Waits until seen() is greater than `seen`, or until the deadline, a time since boot.
  void WaitPast(uint64_t seen, absl::Duration deadline);

 private:
  void Add(bool stop);
  void ReadChanges();

  mutable absl::Mutex mutex_;
  int num_stops_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  UniqueFd changes_;
  UniqueFd end_;  // readable when the watching must end
  std::thread watcher_;
  SignalThread signals_;
};

}  // namespace ampd::client
