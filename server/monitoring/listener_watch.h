#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/io/listener_probe.h"

namespace ampd::server {

// How long a probe waits for a listener to accept.
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(3);

// A listener of this server, as ListenerWatch sees it.
struct WatchedListener {
  std::string name;                      // "127.0.0.1:7070", "the socket /run/ampd/ampd.sock".
  std::function<int64_t()> num_accepts;  // Connections accepted so far, probes included.
  std::function<ProbeResult()> probe;    // Connects to the listener and waits for some seconds.
  // Makes another listener on the same address. Returns why that failed.
  std::function<absl::Status()> restart;
};

// Finds listeners that accept no connections although the process lives: because their socket broke, because somebody
// deleted the file of a Unix socket, or because a thread is stuck. A listener that accepted nothing during kTries looks
// is started again. If it still accepts nothing after kMaxRestarts, or cannot be started, the server should end.
// Thread-safe, except Look.
class ListenerWatch {
 public:
  static constexpr int kTries = 3;
  static constexpr int kMaxRestarts = 2;

  struct Options {
    std::vector<WatchedListener> listeners;
    // Whether file descriptors are left. Without, listeners rightly accept nothing.
    std::function<bool()> has_descriptors;
    // Receives a log line when a listener stops to accept, is started again, and accepts again.
    std::function<void(bool is_good, const std::string& line)> log;
  };
  explicit ListenerWatch(Options options);

  // Probes all listeners. UNAVAILABLE (reason LISTENER_IS_DEAD) if the server should end. REQUIRES: called by one
  // thread at a time.
  absl::Status Look();

  // Whether all listeners accept, as far as is known.
  bool AllAccept() const { return all_accept_; }
  // One line for each listener that accepts no connections; empty if all do.
  std::string WhatFails() const;

 private:
  struct State {
    int64_t num_accepts = 0;
    bool gets_probes = false;  // Whether a probe ever got through. Else, a firewall may keep them away.
    int num_failed = 0;        // Looks in a row.
    int num_restarts = 0;      // Since it last accepted.
    bool is_dead = false;
  };
  absl::Status LookAt(const WatchedListener& listener, State* state);
  absl::Status Restart(const WatchedListener& listener, State* state);
  void Publish();

  const Options options_;
  std::vector<State> states_;
  std::atomic<bool> all_accept_ = true;
  mutable absl::Mutex mutex_;
  std::string what_fails_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
