#pragma once

#include <cstddef>

namespace ampd::server {

// The limit for the total size of the items in one response (gRPC clients accept responses of 4 MiB by default), and
// the limit for one item when it is stored. The second limit is lower, because data such as a job's progress is added
// to an item later.
inline constexpr size_t kMaxPageBytes = 3 << 20;
inline constexpr size_t kMaxItemBytes = 2 << 20;

// Counts the bytes of one page (response) up to kMaxPageBytes. Thread-compatible.
class PageBudget {
 public:
  // Adds an item of this size if it fits, and returns whether it did. The first item always fits.
  bool Take(size_t num_bytes) {
    const bool has_room = is_empty_ || num_bytes_ + num_bytes <= kMaxPageBytes;
    num_bytes_ += has_room ? num_bytes : 0;
    is_empty_ = false;
    return has_room;
  }

 private:
  size_t num_bytes_ = 0;
  bool is_empty_ = true;
};

}  // namespace ampd::server
