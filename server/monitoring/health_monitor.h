#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/health_checks.h"

namespace ampd::server {

// How many file descriptors the process may have open at once.
int64_t DescriptorLimit();

// How many more it may open; 0 when not even that can be told.
int64_t DescriptorsLeft();

// The server's health, looked at from time to time. Thread-safe.
class HealthMonitor {
 public:
  using Results = std::array<bool, std::size(kHealthChecks)>;  // by HealthCheckId
  struct Options {
    std::function<bool()> has_disk_room;
    std::function<absl::Status()> check_folder;
    std::function<bool()> has_connection_room;
    // Is given what Look saw when it is other than before; all checks hold at first. Not called of a server that
    // leaves.
    std::function<void(const Results&)> show;
    // A line for the log when a check begins to fail, or holds again.
    std::function<void(bool is_good, const std::string& line)> log;
  };
  explicit HealthMonitor(Options options) : options_(std::move(options)) { results_.fill(true); }

  // Looks at everything. REQUIRES: called by one thread at a time.
  void Look();
  // From now on the server is not ready, whatever the checks say.
  void BeginLeaving();

  // A line for each reason why the server is not ready; empty when it is.
  std::string WhatFails() const;

 private:
  const Options options_;
  mutable absl::Mutex mutex_;
  Results results_ ABSL_GUARDED_BY(mutex_) = {};
  bool is_leaving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
