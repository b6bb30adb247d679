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

// Memory of this process that is in RAM now; 0 if the kernel does not tell.
int64_t ResidentBytes();

// Returns the memory that free blocks of malloc take to the system, if they are many. After many calls at once, glibc
// holds free memory between used blocks and does not return it by itself.
void GiveBackMemory();

// How much memory this process may take: that of the host, or the limit of its control group (version 2) or of one
// above it, if that is less. `root` is the folder in which /proc and /sys are found, for tests.
int64_t MemoryOfSystem(const std::string& root = "");

// Compares the memory of the server with its limit, so that floods end calls of clients and not the whole host:
//
//   up to the limit      everything is served
//   above it             free memory is given back; if that does not suffice, HasRoom is false, and the server refuses
//                        what takes much memory
//   kHardFactor above it for kGrace: Look returns an error, and the server should end, so that its service manager
//                        starts it again
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

  // Measures. RESOURCE_EXHAUSTED (reason MEMORY_LIMIT_EXCEEDED) if the server should end. REQUIRES: called by one
  // thread at a time, about once a second.
  absl::Status Look();

  // Whether the memory was below the limit at the last Look.
  bool HasRoom() const { return has_room_; }

 private:
  const Options options_;
  std::atomic<bool> has_room_ = true;
  std::optional<absl::Duration> above_since_;  // Since boot: when the hard bound was passed.
};

}  // namespace ampd::server
