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

// How long a probe waits until a listener accepts its connection.
inline constexpr absl::Duration kProbeTimeout = absl::Seconds(3);

// A listener of this server that ListenerWatch checks.
struct WatchedListener {
  std::string name;                      // For example "127.0.0.1:7070" or "the socket /run/ampd/ampd.sock".
  std::function<int64_t()> num_accepts;  // Connections accepted so far, including probes.
  std::function<ProbeResult()> probe;    // Connects to the listener and waits some seconds for the accept.
  // Replaces the listener by another one on the same address. Returns the error if that failed.
  std::function<absl::Status()> restart;
};

// Finds listeners that accept no connections although the process lives. Causes are a broken socket, a deleted file of
// a Unix socket, or a stuck thread. If a listener accepts nothing during kTries calls of Look in a row, it is
// restarted. If it still accepts nothing after kMaxRestarts restarts, or cannot be restarted, the server should end.
// Thread-safe, except Look.
class ListenerWatch {
 public:
  static constexpr int kTries = 3;
  static constexpr int kMaxRestarts = 2;

  struct Options {
    std::vector<WatchedListener> listeners;
    // Whether file descriptors are left. If none are left, it is normal that listeners accept nothing.
    std::function<bool()> has_descriptors;
    // Called with a log line when a listener stops accepting, is restarted, or accepts again.
    std::function<void(bool is_good, const std::string& line)> log;
  };
  explicit ListenerWatch(Options options);

  // Probes all listeners. UNAVAILABLE (reason LISTENER_IS_DEAD) if the server should end. REQUIRES: called by one
  // thread at a time.
  absl::Status Look();

  // Whether all listeners accept connections. Turns false only after a listener accepted nothing during kTries calls of
  // Look.
  bool AllAccept() const { return all_accept_; }
  // Returns one line for each listener that accepts no connections; empty if all accept.
  std::string WhatFails() const;

 private:
  struct State {
    int64_t num_accepts = 0;
    bool gets_probes = false;  // Whether a probe ever succeeded. If not, a firewall may block them.
    int num_failed = 0;        // How many calls of Look in a row found no accept.
    int num_restarts = 0;      // Restarts since the listener last accepted.
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
