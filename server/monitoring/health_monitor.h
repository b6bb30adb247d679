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

// Returns how many file descriptors the process may have open at once.
int64_t DescriptorLimit();

// Returns how many more file descriptors the process may open; 0 if that cannot be determined.
int64_t DescriptorsLeft();

// Checks the server's health periodically. Thread-safe.
class HealthMonitor {
 public:
  using Results = std::array<bool, std::size(kHealthChecks)>;  // Index: HealthCheckId.
  struct Options {
    std::function<bool()> has_disk_room;
    std::function<absl::Status()> check_folder;
    std::function<bool()> has_connection_room;
    std::function<bool()> has_memory;
    std::function<bool()> listeners_accept;
    // Called with the results of Look when they have changed. Initially all checks pass. Not called while the server
    // shuts down.
    std::function<void(const Results&)> show;
    // Called with a log line when a check begins to fail, and when it passes again.
    std::function<void(bool is_good, const std::string& line)> log;
  };
  explicit HealthMonitor(Options options) : options_(std::move(options)) { results_.fill(true); }

  // Runs all checks. REQUIRES: called by one thread at a time.
  void Look();
  // Marks the server as not ready from now on, regardless of the checks, because it shuts down.
  void BeginLeaving();

  // Returns one line for each reason why the server is not ready; empty if it is ready.
  std::string WhatFails() const;

 private:
  const Options options_;
  mutable absl::Mutex mutex_;
  Results results_ ABSL_GUARDED_BY(mutex_) = {};
  bool is_leaving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
