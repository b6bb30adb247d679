#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace ampd::server {

// Returns the memory of this process that is in RAM now; 0 if the kernel does not report it.
int64_t ResidentBytes();

// Returns free memory of malloc to the system, if there is much. After many calls at once, glibc holds free blocks
// between used blocks and does not return them by itself.
void GiveBackMemory();

// Returns how much memory this process may use: the host's memory or, if less, the limit of its control groups. `root`
// is the folder in which /proc and /sys are found; tests set it.
int64_t MemoryOfSystem(const std::string& root = "");

// Compares the memory of the server with its limit, so that the server can refuse calls, or end, before the host runs
// out of memory:
//
//   up to the limit      everything is served
//   above the limit      free memory is returned to the system; if that does not suffice, HasRoom is false, and the
//                        server refuses calls that take much memory
//   kHardFactor times the limit, for kGrace: Look returns an error, and the server should end, so that its service
//                        manager restarts it
//
// Thread-safe, except Look.
class MemoryWatch {
 public:
  static constexpr double kHardFactor = 1.25;
  static constexpr absl::Duration kGrace = absl::Seconds(10);

  struct Options {
    int64_t limit_bytes = 0;  // 0: no limit.
    const Clock* clock = nullptr;
    std::function<int64_t()> resident_bytes = ResidentBytes;
    std::function<void()> give_back = GiveBackMemory;
  };
  explicit MemoryWatch(Options options) : options_(std::move(options)) {}

  // Measures the memory. RESOURCE_EXHAUSTED (reason MEMORY_LIMIT_EXCEEDED) if the server should end. REQUIRES: called
  // by one thread at a time, about once a second.
  absl::Status Look();

  // Whether the memory was within the limit at the last Look.
  bool HasRoom() const { return has_room_; }

 private:
  const Options options_;
  std::atomic<bool> has_room_ = true;
  std::optional<absl::Duration> above_since_;  // Time since boot when kHardFactor was exceeded.
};

}  // namespace ampd::server
