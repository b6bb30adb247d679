#pragma once

#include <cstddef>

namespace ampd::server {

// What the items of one answer may take together. Clients of gRPC take 4 MiB by default; no single item of ours is
// larger than kMaxItemBytes, and what is added to an item later (a job's progress) has the rest.
inline constexpr size_t kMaxPageBytes = 3 << 20;
inline constexpr size_t kMaxItemBytes = 2 << 20;

// Counts what a page holds. Thread-compatible.
class PageBudget {
 public:
  // Whether one more item of this size has room, which it takes. The first one always has.
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
